"""The expected gain of another full training, in units of the metric, and the end of a search by it."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from .ending import Ending, EndReason
from .rung import pack, unpack

_PATIENCE = 8  # The expected gain is the largest one of so many estimates.
_ENOUGH = 30  # A search ends after so many observations at the earliest.


class GainWatch:
    """End a search when its expected gain is below a limit. Without a limit, it only records the gain."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._latest: deque[float] = deque(maxlen=_PATIENCE)
        self.ended = False

    def add(self, gain: float, observations: int) -> None:
        if self.ended:
            return
        self._latest.append(gain)
        enough = observations >= _ENOUGH and len(self._latest) == _PATIENCE
        self.ended = self._limit is not None and enough and max(self._latest) < self._limit

    def expected(self) -> float | None:
        return max(self._latest) if self._latest else None

    def ending(self) -> Ending | None:
        if not self.ended or self._limit is None:
            return None
        return Ending(EndReason.GAIN_BELOW, max(self._latest), self._limit)

    def snapshot(self) -> dict[str, Any]:
        return {"latest": pack(self._latest), "ended": self.ended}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._latest = deque(unpack(state["latest"]), maxlen=_PATIENCE)
        self.ended = state["ended"]


def improvement(gain: float, deviation: float) -> float:
    """Return the expected improvement for a predicted gain and its standard deviation."""
    u = gain / deviation
    density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    return deviation * (u * math.erfc(-u / math.sqrt(2)) / 2 + density)
