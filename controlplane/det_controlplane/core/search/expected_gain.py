"""The expected gain of another full training, in units of the metric, and the end of a search by it."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .ending import Ending, EndReason
from .rung import pack, unpack

_PATIENCE = 8  # The expected gain is the largest one of so many estimates.
_ENOUGH = 30  # A search ends after so many observations at the earliest.
_PRIOR = 0.1  # A search without a record realises this fraction of its model's expectations.


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state of a search when its model made decisions."""

    trained: float  # in full trainings
    best: float
    promised: float  # the sum of the gains that the model has expected so far


class GainWatch:
    """Estimate the gain of another full training, and end a search when it is below a limit.

    The model chooses the candidate with the largest expected improvement, and often one that it overestimates. So its
    expectation is multiplied by the fraction that came true in the second half of the search so far."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._latest: deque[float] = deque(maxlen=_PATIENCE)
        self._marks: deque[_Mark] = deque()  # from half of the training so far
        self.ended = False

    def add(self, improvement: float, best: float, trained: float, observations: int) -> None:
        """Add the largest expected improvement of the model, and the best loss so far."""
        if self.ended:
            return
        last = self._marks[-1] if self._marks else _Mark(trained, best, 0.0)
        promised = last.promised + improvement * (trained - last.trained)
        self._marks.append(_Mark(trained, best, promised))
        while len(self._marks) > 1 and self._marks[1].trained <= trained / 2:
            self._marks.popleft()
        half = self._marks[0]
        realised = half.best - best + _PRIOR * improvement
        total = promised - half.promised + improvement
        self._latest.append(improvement * realised / total if total > 0 else 0.0)
        enough = observations >= _ENOUGH and len(self._latest) == _PATIENCE
        self.ended = self._limit is not None and enough and max(self._latest) < self._limit

    def expected(self) -> float | None:
        return max(self._latest) if self._latest else None

    def ending(self) -> Ending | None:
        if not self.ended or self._limit is None:
            return None
        return Ending(EndReason.GAIN_BELOW, max(self._latest), self._limit)

    def snapshot(self) -> dict[str, Any]:
        marks = [
            value for mark in self._marks for value in (mark.trained, mark.best, mark.promised)
        ]
        return {"latest": pack(self._latest), "marks": pack(marks), "ended": self.ended}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._latest = deque(unpack(state["latest"]), maxlen=_PATIENCE)
        marks = unpack(state["marks"]) if "marks" in state else []  # earlier versions have none
        self._marks = deque(_Mark(*marks[at : at + 3]) for at in range(0, len(marks), 3))
        self.ended = state["ended"]


def improvement(gain: float, deviation: float) -> float:
    """Return the expected improvement for a predicted gain and its standard deviation."""
    u = gain / deviation
    density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    return deviation * (u * math.erfc(-u / math.sqrt(2)) / 2 + density)
