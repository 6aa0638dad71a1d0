"""`det experiment create --dry-run`: the trials, slots, hours and cost of an experiment that is not created."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from determined.common.http import APIError, Session
from determined.common.pages import pages

from det_cli.actions import deadline_estimate, prices
from det_cli.connection import V1


@dataclass(frozen=True, slots=True)
class Search:
    """The planned trials of a search. `units` is the length of their training, None if the plan does not limit it."""

    groups: tuple[tuple[int, str], ...]  # numbers of trials, each with its length
    units: "float | None"
    unit: str

    @property
    def trials(self) -> int:
        return sum(count for count, _ in self.groups)


def print_estimate(session: Session, config: dict[str, Any]) -> None:
    """Print the trials, slots, hours and money of an experiment. `config` is its full configuration."""
    for line in estimate_lines(session, config):
        print(line)


def estimate_lines(session: Session, config: dict[str, Any]) -> Iterator[str]:
    """Yield the trials, slots, hours and money of an experiment, each on a line."""
    search = _search_of(session, config)
    slots = int((config.get("resources") or {}).get("slots_per_trial") or 0)
    hours, earlier = _hours(session, config, search)
    yield f"trials  {_trials_text(search, config)}"
    yield f"slots   {_slots_text(search, config, slots, prices.pool_name(session, config))}"
    expected_h = float((config.get("resources") or {}).get("expected_hours") or 0)
    if earlier is None and expected_h:
        hours = expected_h * _at_once(search, config)
        yield f"hours   {hours * max(slots, 1):.2g} slot hours, from resources.expected_hours"
    elif earlier is None:
        yield "hours   unknown: no completed experiment has this name yet"
    else:
        yield (
            f"hours   {hours * max(slots, 1):.2g} slot hours, if it trains as fast as experiment {earlier}"
        )
    trials = search.trials if search else 1
    for number, line in enumerate(prices.estimate(session, config, trials, hours)):
        yield line if number else f"money   {line}"
    deadline = deadline_estimate.estimate(session, config, hours, _at_once(search, config))
    if deadline:
        yield f"by      {deadline}"


def _search_of(session: Session, config: dict[str, Any]) -> "Search | None":
    """Return the planned trials, or None for a search that cannot be planned, such as a custom one."""
    try:
        response = session.post(V1 + "/preview-hp-search", {"config": config})
    except APIError:
        return None
    groups, total, units = [], 0.0, set()
    for row in response["summary"]["trials"]:
        count = int(row["count"])
        unit, length = _length(row.get("unit") or {}, config.get("searcher") or {})
        groups.append((count, f"{length:g} {unit}" if unit else ""))
        units.add(unit)
        total += count * length
    same_unit = len(units) == 1 and "" not in units
    return Search(tuple(groups), total if same_unit else None, units.pop() if same_unit else "")


def _length(unit: dict[str, Any], searcher: dict[str, Any]) -> tuple[str, float]:
    """Return the unit and the length of a trial, or ('', 0) if its code decides."""
    if not unit.get("maxLength") and unit.get("name"):
        return str(unit["name"]), float(unit["value"])
    length = searcher.get("max_length")
    if isinstance(length, dict) and length:
        return next((str(name), float(value)) for name, value in length.items())
    return "", 0.0


def _trials_text(search: "Search | None", config: dict[str, Any]) -> str:
    name = str((config.get("searcher") or {}).get("name") or "")
    if search is None:
        return f"unknown: {name} decides while it runs"
    groups = ", ".join(f"{count} for {length}" for count, length in search.groups if length)
    return f"{search.trials} ({name})" + (f": {groups}" if groups else "")


def _slots_text(search: "Search | None", config: dict[str, Any], slots: int, pool: str) -> str:
    at_once = _at_once(search, config)
    together = f", {at_once * slots} at the same time" if at_once > 1 else ""
    return f"{slots} per trial{together}" + (f", in pool {pool}" if pool else "")


def _at_once(search: "Search | None", config: dict[str, Any]) -> int:
    """Return the number of trials that train at the same time."""
    trials = search.trials if search else 1
    most = int((config.get("searcher") or {}).get("max_concurrent_trials") or trials)
    return max(1, min(most, trials))


def _hours(
    session: Session, config: dict[str, Any], search: "Search | None"
) -> "tuple[float, int | None]":
    """Return the hours of all trials together and the completed experiment of the same name that they come from."""
    experiment = _earlier(session, str(config.get("name") or ""))
    if experiment is None or search is None or not search.units:
        return 0.0, None
    before = _search_of(session, experiment.get("config") or {})
    if before is None or not before.units or before.unit != search.unit:
        return 0.0, None
    id = int(experiment["id"])
    trials = pages(session, f"/experiments/{id}/trials", "trials", limit=500)
    seconds = sum(float(trial.get("wallClockTime") or 0) for trial in trials)
    return seconds / 3600 * search.units / before.units, id


def _earlier(session: Session, name: str) -> "dict[str, Any] | None":
    """Return the newest completed experiment with this name, or None."""
    fields = [("name", "=", name), ("state", "=", "COMPLETED")]
    children = [
        {"kind": "field", "columnName": column, "operator": operator, "value": value, "type": "COLUMN_TYPE_TEXT"}
        for column, operator, value in fields
    ]  # fmt: skip
    group = {"kind": "group", "conjunction": "and", "children": children}
    filter_ = json.dumps({"filterGroup": group, "showArchived": True})
    body = {"projectId": 0, "limit": 1, "sort": "id=desc", "filter": filter_}
    try:
        rows = session.post(V1 + "/experiments-search", body)["experiments"] if name else []
        if not rows:
            return None
        return dict(session.get(f"{V1}/experiments/{rows[0]['experiment']['id']}")["experiment"])
    except APIError:
        return None  # the estimate works without it
