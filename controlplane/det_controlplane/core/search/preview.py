"""What a search will do, told before it runs: the answer of /preview-hp-search (facts §4.6)."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.hparams import Space

from .brackets import rung_units
from .grid import grid_size
from .method import SearchFailed
from .registry import Searcher, brackets_of, max_time_of, unit_of


@dataclass(frozen=True, slots=True)
class TrialsTo:
    """So many trials train this long; None is as long as their own script does."""

    count: int
    length: int | None
    unit: str

    def to_json(self) -> dict[str, Any]:
        if self.length is None:
            return {"count": self.count, "unit": {"maxLength": True}}
        unit = {"name": self.unit, "value": self.length, "maxLength": False}
        return {"count": self.count, "unit": unit}


def preview(searcher: Searcher, space: Space, seed: int = 0) -> list[TrialsTo]:
    """A closed formula, no simulation; SearchFailed for methods whose course only metrics decide."""
    name = searcher.get("name")
    if name == "single":
        return [TrialsTo(1, None, unit_of(searcher))]
    if name == "random":
        return [TrialsTo(int(searcher["max_trials"]), None, unit_of(searcher))]
    if name == "grid":
        return [TrialsTo(grid_size(space), None, unit_of(searcher))]
    if name == "adaptive_asha":
        return _preview_brackets(searcher)
    raise SearchFailed(f"invalid searcher configuration: {name} has no preview by formula")


def _preview_brackets(searcher: Searcher) -> list[TrialsTo]:
    divisor = searcher.get("divisor") or 4
    counts: Counter[int] = Counter()
    for bracket in brackets_of(searcher):
        waiting = bracket.max_trials
        units = rung_units(bracket.rungs, max_time_of(searcher), divisor)
        for length in units[:-1]:
            continued = max(int(waiting / divisor), 1)
            counts[length] += waiting - continued
            waiting = continued
        counts[units[-1]] += waiting
    unit = unit_of(searcher)
    return [TrialsTo(counts[length], length, unit) for length in sorted(counts) if counts[length]]
