"""Preview the trials of a search before it runs, for /preview-hp-search."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.hparams import Space

from .brackets import rung_units
from .grid import grid_size
from .method import SearchFailed
from .registry import Searcher, brackets_of, max_time_of, promotes, unit_of
from .simulate import simulate

_MOST_ROUNDS = 20_000  # takes about a second


@dataclass(frozen=True, slots=True)
class TrialsTo:
    """A number of trials that train to the same length. None means as long as their script trains."""

    count: int
    length: int | None
    unit: str

    def to_json(self) -> dict[str, Any]:
        if self.length is None:
            return {"count": self.count, "unit": {"maxLength": True}}
        unit = {"name": self.unit, "value": self.length, "maxLength": False}
        return {"count": self.count, "unit": unit}


def preview(searcher: Searcher, space: Space, seed: int = 0) -> list[TrialsTo]:
    """Preview a search. Halving searches use a formula: one of `divisor` trials continues from each rung.

    In the stopping form, at least one trial continues, because the first one does. The promotion form needs `divisor`
    trials at a rung before it promotes one.
    """
    name, unit = str(searcher.get("name")), unit_of(searcher)
    if name == "single":
        return [TrialsTo(1, None, unit)]
    if name == "random":
        return [TrialsTo(int(searcher["max_trials"]), None, unit)]
    if name == "grid":
        return [TrialsTo(grid_size(space), None, unit)]
    if name == "pbt":
        return _by_length(_simulate_population(searcher, space, seed), unit)
    if name == "custom":
        raise SearchFailed("a custom search is decided by a program of yours: run it to see")
    return _by_length(_by_rung(searcher), unit)


def _by_length(counts: Counter[int], unit: str) -> list[TrialsTo]:
    return [TrialsTo(counts[length], length, unit) for length in sorted(counts) if counts[length]]


def _by_rung(searcher: Searcher) -> Counter[int]:
    divisor = searcher.get("divisor") or 4
    least = 0 if promotes(searcher) else 1
    counts: Counter[int] = Counter()
    for bracket in brackets_of(searcher):
        waiting = bracket.max_trials
        units = rung_units(bracket.rungs, max_time_of(searcher), divisor)
        for length in units[:-1]:
            continued = min(max(int(waiting / divisor), least), waiting)
            counts[length] += waiting - continued
            waiting = continued
        counts[units[-1]] += waiting
    return counts


def _simulate_population(searcher: Searcher, space: Space, seed: int) -> Counter[int]:
    """Simulate a population with invented metrics, and count its trials by length."""
    rounds, most = int(searcher["population_size"]) * int(searcher["num_rounds"]), _MOST_ROUNDS
    if rounds > most:
        raise SearchFailed(
            f"population_size times num_rounds is {rounds}: previews imagine up to {most} rounds of trials"
        )
    trials = simulate(searcher, space, seed).trials.values()
    return Counter(int(trial.length) for trial in trials)
