"""The results of trials that the model of `model_asha` learns from."""

import math
from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from .rung import pack, unpack

_WINDOW = 64  # the number of observations in the model
_BEST = 38  # so many of them are the best; the others are the newest
_PAIRS = 3  # The effect of a rung is known after so many trials have passed it.


@dataclass(frozen=True, slots=True)
class Observation:
    loss: float
    order: int
    rung: int
    request_id: str
    point: list[float]


class Observations:
    """Keep the best observations and the newest ones."""

    def __init__(self) -> None:
        self.count = 0
        self._best: list[Observation] = []
        self._newest: deque[Observation] = deque(maxlen=_WINDOW)

    def add(self, loss: float, rung: int, request_id: str, point: list[float]) -> None:
        self.count += 1
        observation = Observation(loss, self.count, rung, request_id, point)
        insort(self._best, observation, key=lambda entry: (entry.loss, entry.order))
        del self._best[_BEST:]
        self._newest.append(observation)

    def remove(self, request_id: str) -> None:
        self._best = [entry for entry in self._best if entry.request_id != request_id]
        newest = [entry for entry in self._newest if entry.request_id != request_id]
        self._newest = deque(newest, maxlen=_WINDOW)

    def size(self) -> int:
        """Return the number of observations that are known, at most the size of the window."""
        return len(self._newest)

    def best_loss(self) -> float:
        return self._best[0].loss if self._best else math.inf

    def window(self) -> list[Observation]:
        chosen = {entry.order: entry for entry in self._best}
        for entry in reversed(self._newest):
            if len(chosen) == _WINDOW:
                break
            chosen[entry.order] = entry
        return [chosen[order] for order in sorted(chosen)]

    def snapshot(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "best": [_dump(entry) for entry in self._best],
            "newest": [_dump(entry) for entry in self._newest],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.count = state["count"]
        self._best = [_load(entry) for entry in state["best"]]
        self._newest = deque(map(_load, state["newest"]), maxlen=_WINDOW)


def losses_at_last_rung(observations: Sequence[Observation]) -> list[float]:
    """Return the losses less the median change from their rung to the last one.

    Losses usually fall while a trial trains. Without this correction, the model expects that points near a trial at the
    first rung are as bad as that trial, even after a full training."""
    losses: dict[str, dict[int, float]] = {}
    for entry in observations:
        losses.setdefault(entry.request_id, {})[entry.rung] = entry.loss
    last = max(entry.rung for entry in observations)
    change = [0.0] * (last + 1)
    for rung in range(last - 1, -1, -1):
        changes = [
            by_rung[rung] - by_rung[rung + 1]
            for by_rung in losses.values()
            if math.isfinite(by_rung.get(rung, math.inf) - by_rung.get(rung + 1, math.inf))
        ]
        change[rung] = change[rung + 1] + (median_low(changes) if len(changes) >= _PAIRS else 0.0)
    return [entry.loss - change[entry.rung] for entry in observations]


def _dump(entry: Observation) -> list[Any]:
    return [pack([entry.loss, *entry.point]), entry.order, entry.rung, entry.request_id]


def _load(state: Sequence[Any]) -> Observation:
    packed, order, rung, request_id = state
    loss, *point = unpack(packed)
    return Observation(loss, order, rung, request_id, point)
