"""Change the hyperparameters of a good trial: resample some, and increase or decrease the others."""

import math
from collections.abc import Mapping
from typing import Any

from det_controlplane.core.hparams import (
    Categorical,
    Const,
    Double,
    HParam,
    Int,
    Log,
    Nested,
    Space,
)

from .rng import Rng
from .sampling import draw_of


class Explorer:
    def __init__(
        self, space: Space, rng: Rng, resample_probability: float, perturb_factor: float
    ) -> None:
        self._space = space
        self._rng = rng
        self._resample = resample_probability
        self._factor = perturb_factor

    def explore(self, hparams: Mapping[str, Any]) -> dict[str, Any]:
        return self._explore_all(self._space, hparams)

    def _explore_all(self, space: Space, hparams: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: self._explore(space[name], hparams[name]) for name in sorted(space)}
        return {name: values[name] for name in space}

    def _explore(self, hparam: HParam, value: Any) -> Any:
        if isinstance(hparam, Nested):
            return self._explore_all(hparam.members, value)
        if isinstance(hparam, Const):
            return value
        if self._rng.uniform() < self._resample:
            return draw_of(hparam)(self._rng)
        if isinstance(hparam, Categorical):
            return value
        grows = self._rng.uniform() < 0.5
        return _perturb_value(hparam, value, 1 + self._factor if grows else 1 - self._factor)


def _perturb_value(hparam: Int | Double | Log, value: Any, factor: float) -> Any:
    if isinstance(hparam, Int):
        # Round away from the old value, because rounding to nearest would never change small integers.
        number = math.ceil(value * factor) if factor > 1 else math.floor(value * factor)
        return min(max(number, hparam.minval), hparam.maxval)
    low, high = _bounds(hparam)
    return min(max(value * factor, low), high)


def _bounds(hparam: Double | Log) -> tuple[float, float]:
    if isinstance(hparam, Log):
        ends = (hparam.base**hparam.minval, hparam.base**hparam.maxval)
        return min(ends), max(ends)
    return hparam.minval, hparam.maxval
