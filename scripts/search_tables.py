"""Draw the tables of docs/concepts/search.md with the code of the searches.

python -m scripts.search_tables           print the current page
python -m scripts.search_tables --write   update the page
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from det_controlplane.core.hparams import Log, Space
from det_controlplane.core.search import (
    Create,
    Park,
    Search,
    Started,
    Stop,
    TrainTo,
    Validated,
    brackets_of,
    new,
    simulate,
)
from det_controlplane.core.search.brackets import rung_units

from scripts.pages import redrawn, update

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "search.md"
SPACE: Space = {"learning_rate": Log(-4.0, -1.0, 10.0)}
ASHA: dict[str, Any] = {
    "name": "async_halving",
    "metric": "loss",
    "time_metric": "batches",
    "max_time": 900,
    "num_rungs": 3,
    "divisor": 3,
    "max_trials": 12,
    "max_concurrent_trials": 3,
}
PROMOTION = {**ASHA, "time_metric": None, "max_time": None, "max_length": {"batches": 900}}
ADAPTIVE = {**ASHA, "name": "adaptive_asha", "max_trials": 50, "mode": "conservative"}
PBT = {
    "name": "pbt",
    "metric": "loss",
    "population_size": 3,
    "num_rounds": 2,
    "time_metric": "batches",
    "length_per_round": 100,
    "replace_function": {"truncate_fraction": 0.34},
}


def draw_brackets() -> str:
    rows = [
        "bracket  trials  at once  rungs (batches)",
        "-------  ------  -------  ---------------",
    ]
    for number, bracket in enumerate(brackets_of(ADAPTIVE), 1):
        units = rung_units(bracket.rungs, 900, 3)
        line = " → ".join(str(unit) for unit in units)
        rows.append(f"{number:>7}  {bracket.max_trials:>6}  {bracket.max_concurrent:>7}  {line}")
    return "\n".join(rows)


def draw_rungs() -> str:
    """Draw how many of forty trials reach each rung, as bars."""
    rows = []
    for label, searcher in (("stopping", ASHA), ("promotion", PROMOTION)):
        trials = simulate({**searcher, "max_trials": 40}, SPACE, 1).trials.values()
        ends = Counter(int(trial.length) for trial in trials)
        for unit in sorted(ends):
            trial_count = sum(count for length, count in ends.items() if length >= unit)
            rows.append(f"{label:<10} {unit:>4} batches  {'█' * trial_count} {trial_count}")
    return "\n".join(rows)


def play(searcher: Mapping[str, Any], reports: list[tuple[int, float, int]]) -> str:
    """Return a table of reports and the search's actions. Trials are numbered in the order of their creation."""
    search, names = new(searcher, SPACE, 0), dict[str, int]()
    rows = [f"{'start':<28} {_actions(search, Started(), names)}"]
    for trial, loss, batches in reports:
        request_id = next(key for key, number in names.items() if number == trial)
        event = Validated(request_id, {"loss": loss, "batches": batches})
        report = f"trial {trial}: {loss} at {batches}"
        rows.append(f"{report:<28} {_actions(search, event, names)}")
    return "\n".join(rows)


def _actions(search: Search, event: Started | Validated, names: dict[str, int]) -> str:
    words = []
    for action in search.fold(event):
        if isinstance(action, Create):
            names[action.request_id] = len(names) + 1
            parent = action.warm_start_from
            suffix = f" from {names[parent]}" if parent else ""
            words.append(f"create {names[action.request_id]}{suffix}")
        elif isinstance(action, TrainTo):
            words.append(f"train {names[action.request_id]} to {action.length}")
        elif isinstance(action, (Stop, Park)):
            words.append(f"{type(action).__name__.lower()} {names[action.request_id]}")
    return ", ".join(words) or "go on"


def draw_stopping() -> str:
    return play(ASHA, [(1, 0.5, 100), (2, 0.4, 100), (3, 0.6, 100), (2, 0.35, 300), (1, 0.4, 300)])


def draw_promotion() -> str:
    return play(PROMOTION, [(1, 0.5, 100), (2, 0.3, 100), (3, 0.9, 100), (4, 0.2, 100)])


def draw_pbt() -> str:
    return play(PBT, [(2, 0.9, 100), (3, 0.4, 100), (1, 0.1, 100)])


DRAWINGS: dict[str, Callable[[], str]] = {
    "brackets": draw_brackets,
    "rungs": draw_rungs,
    "stopping": draw_stopping,
    "promotion": draw_promotion,
    "pbt": draw_pbt,
}


def drawn(page: str) -> str:
    return redrawn(page, DRAWINGS)


if __name__ == "__main__":
    update(PAGE, drawn)
