"""The model of `model_asha`: it predicts losses of hyperparameters at each rung from a window of observations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.hparams import Categorical

from .gaussian_process import GaussianProcess
from .observations import Observation, losses_at_last_rung
from .rung import pack, unpack
from .unit_cube import Leaf

_CEILING = 6.0  # of a loss above the best one, in units of the median above the best
# A categorical with more values is one coordinate, in the order of its values.
_MOST_CATEGORIES = 8
_CATEGORY = math.sqrt(0.5) / 2  # Two categories differ like numbers at half of their range.
# The expected value of each hyperparameter of the kernel, and the spread of its logarithm.
_LENGTH, _LENGTH_SPREAD = 2.0, 0.7
_RUNG_LENGTH, _RUNG_SPREAD = 1.0, 0.5
_NOISE, _NOISE_SPREAD = 0.001, 1.5
_FACTORS = (0.6, 1.6)  # A fit multiplies one length by one of these.


class Surrogate:
    """Build the model, and improve its kernel by one step in each fit."""

    def __init__(self, leaves: Sequence[Leaf], num_rungs: int) -> None:
        self._leaves = leaves
        self._top = max(num_rungs - 1, 1)
        self._lengths = [_LENGTH] * len(self._features([0.0] * len(leaves)))
        self._rung_length, self._noise = _RUNG_LENGTH, _NOISE
        self._fits = 0

    def model(self, observations: Sequence[Observation]) -> GaussianProcess:
        return self._process(self._data(observations), self._kernel())

    def fit(self, observations: Sequence[Observation]) -> GaussianProcess:
        """Return the model after a change of one hyperparameter of the kernel, if the change fits better."""
        kernel, data = self._kernel(), self._data(observations)
        best = self._process(data, kernel)
        factor_index, changed = divmod(self._fits, len(kernel))
        self._fits += 1
        factor = _FACTORS[factor_index % len(_FACTORS)]
        step = factor**3 if changed == len(kernel) - 1 else factor  # the noise varies most
        other = [*kernel[:changed], kernel[changed] * step, *kernel[changed + 1 :]]
        process = self._process(data, other)
        if process.misfit() + _surprise(other) >= best.misfit() + _surprise(kernel):
            return best
        *self._lengths, self._rung_length, self._noise = other
        return process

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

    def _data(self, observations: Sequence[Observation]) -> tuple[list[list[float]], list[float]]:
        inputs = [self.at(entry.point, entry.rung) for entry in observations]
        return inputs, relative(losses_at_last_rung(observations))

    def _process(
        self, data: tuple[list[list[float]], list[float]], kernel: Sequence[float]
    ) -> GaussianProcess:
        inputs, values = data
        # Most observations are good ones, so their mean would promise too much of unknown regions.
        mean = sorted(values)[len(values) // 2]
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


def relative(losses: Sequence[float]) -> list[float]:
    """Return the distances from the best loss, in units of the median distance. All bad losses are alike."""
    best, spread = scale_of(losses)
    if math.isinf(best):
        return [0.0] * len(losses)
    return [min((loss - best) / spread, _CEILING) for loss in losses]


def _surprise(kernel: Sequence[float]) -> float:
    """Return the negative logarithm of the prior of a kernel, without constants."""
    *lengths, rung_length, noise = kernel
    return (
        sum((math.log(length / _LENGTH) / _LENGTH_SPREAD) ** 2 for length in lengths)
        + (math.log(rung_length / _RUNG_LENGTH) / _RUNG_SPREAD) ** 2
        + (math.log(noise / _NOISE) / _NOISE_SPREAD) ** 2
    ) / 2
