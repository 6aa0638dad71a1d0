"""The model of `model_asha`: it predicts losses of hyperparameters at each rung from a window of observations."""

import math
from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.hparams import Categorical

from .gaussian_process import GaussianProcess
from .rung import pack, unpack
from .unit_cube import Leaf

_WINDOW = 64  # the number of observations in the model
_BEST = 38  # so many of them are the best; the others are the newest
_FLOOR, _CEILING = 0.03, 3.0  # of a loss above the best one, in units of the median above the best
_ORDINARY = 0.5  # An unknown trial is expected to be worse than this fraction of the observations.
# A categorical with more values is one coordinate, in the order of its values.
_MOST_CATEGORIES = 8
_CATEGORY = math.sqrt(0.5) / 2  # Two categories differ like numbers at half of their range.
# The expected value of each hyperparameter of the kernel, and the spread of its logarithm.
_LENGTH, _LENGTH_SPREAD = 0.5, 0.7
_RUNG_LENGTH, _RUNG_SPREAD = 1.0, 0.5
_NOISE, _NOISE_SPREAD = 0.01, 1.5
_FACTORS = (0.6, 1.6)  # A fit multiplies one length by these.


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


class Surrogate:
    """Build the model, and improve its kernel by one step in each fit."""

    def __init__(self, leaves: Sequence[Leaf], num_rungs: int) -> None:
        self._leaves = leaves
        self._top = max(num_rungs - 1, 1)
        self._lengths = [_LENGTH] * len(self._features([0.0] * len(leaves)))
        self._rung_length, self._noise = _RUNG_LENGTH, _NOISE
        self._fits = 0

    def model(self, observations: Sequence[Observation]) -> GaussianProcess:
        return self._process(observations, self._kernel())

    def fit(self, observations: Sequence[Observation]) -> GaussianProcess:
        """Return the model after a change of one hyperparameter of the kernel, if the change fits better."""
        kernel = self._kernel()
        best = self._process(observations, kernel)
        misfit = best.misfit() + _surprise(kernel)
        changed = self._fits % len(kernel)
        self._fits += 1
        for factor in _FACTORS:
            step = factor**3 if changed == len(kernel) - 1 else factor
            other = [*kernel[:changed], kernel[changed] * step, *kernel[changed + 1 :]]
            process = self._process(observations, other)
            if process.misfit() + _surprise(other) < misfit:
                *self._lengths, self._rung_length, self._noise = other
                return process
        return best

    def at(self, point: Sequence[float], rung: int | None = None) -> list[float]:
        """Return the input of the model for a point at a rung, by default at the last one."""
        return [*self._features(point), 1.0 if rung is None else rung / self._top]

    def snapshot(self) -> dict[str, Any]:
        return {"kernel": pack(self._kernel()), "fits": self._fits}

    def restore(self, state: Mapping[str, Any]) -> None:
        *self._lengths, self._rung_length, self._noise = unpack(state["kernel"])
        self._fits = state["fits"]

    def _kernel(self) -> list[float]:
        return [*self._lengths, self._rung_length, self._noise]

    def _process(
        self, observations: Sequence[Observation], kernel: Sequence[float]
    ) -> GaussianProcess:
        inputs = [self.at(entry.point, entry.rung) for entry in observations]
        values = standardise([entry.loss for entry in observations])
        # Most observations are good ones, so their mean would promise too much of unknown regions.
        mean = sorted(values)[int(len(values) * _ORDINARY)]
        return GaussianProcess(inputs, values, kernel[:-1], kernel[-1], mean)

    def _features(self, point: Sequence[float]) -> list[float]:
        features: list[float] = []
        for (_, hparam), x in zip(self._leaves, point, strict=True):
            if isinstance(hparam, Categorical) and len(hparam.vals) <= _MOST_CATEGORIES:
                value = int(x * len(hparam.vals))
                features.extend(_CATEGORY * (index == value) for index in range(len(hparam.vals)))
            else:
                features.append(x)
        return features


def scale_of(losses: Sequence[float]) -> tuple[float, float]:
    """Return the best loss and a positive distance from it: of the median if possible."""
    ascending = sorted(losses)
    best, median = ascending[0], ascending[len(ascending) // 2]
    spread = median - best
    if not math.isfinite(spread) or spread <= 0:
        spread = next((loss - best for loss in ascending if 0 < loss - best < math.inf), 1.0)
    return best, spread


def standardise(losses: Sequence[float]) -> list[float]:
    """Return logarithms of the distances from the best loss, with mean 0 and variance 1.

    The logarithm magnifies differences between good losses. All bad losses, and infinite ones, are alike.
    """
    best, spread = scale_of(losses)
    if math.isinf(best):
        return [0.0] * len(losses)
    logs = [math.log(min((loss - best) / spread, _CEILING) + _FLOOR) for loss in losses]
    mean = sum(logs) / len(logs)
    deviation = math.sqrt(sum((log - mean) ** 2 for log in logs) / len(logs)) or 1.0
    return [(log - mean) / deviation for log in logs]


def _surprise(kernel: Sequence[float]) -> float:
    """Return the negative logarithm of the prior of a kernel, without constants."""
    *lengths, rung_length, noise = kernel
    return (
        sum((math.log(length / _LENGTH) / _LENGTH_SPREAD) ** 2 for length in lengths)
        + (math.log(rung_length / _RUNG_LENGTH) / _RUNG_SPREAD) ** 2
        + (math.log(noise / _NOISE) / _NOISE_SPREAD) ** 2
    ) / 2


def _dump(entry: Observation) -> list[Any]:
    return [pack([entry.loss, *entry.point]), entry.order, entry.rung, entry.request_id]


def _load(state: Sequence[Any]) -> Observation:
    packed, order, rung, request_id = state
    loss, *point = unpack(packed)
    return Observation(loss, order, rung, request_id, point)
