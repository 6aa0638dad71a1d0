"""Map a hyperparameter space to a unit cube. Every sampled hyperparameter is one coordinate in [0, 1]."""

import math
from collections.abc import Mapping, Sequence
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

Path = tuple[str, ...]
Leaf = tuple[Path, Int | Double | Log | Categorical]


def leaves_of(space: Space, prefix: Path = ()) -> list[Leaf]:
    """Return the hyperparameters that vary. Names are sorted at every level."""
    leaves: list[Leaf] = []
    for name in sorted(space):
        hparam, path = space[name], (*prefix, name)
        if isinstance(hparam, Nested):
            leaves.extend(leaves_of(hparam.members, path))
        elif not isinstance(hparam, Const):
            leaves.append((path, hparam))
    return leaves


def encode(leaves: Sequence[Leaf], hparams: Mapping[str, Any]) -> list[float]:
    return [_encode(hparam, _at(hparams, path)) for path, hparam in leaves]


def decode(space: Space, leaves: Sequence[Leaf], point: Sequence[float]) -> dict[str, Any]:
    values = {path: _decode(hparam, x) for (path, hparam), x in zip(leaves, point, strict=True)}
    return _nest(space, values, ())


def _encode(hparam: HParam, value: Any) -> float:
    if isinstance(hparam, Categorical):
        return (hparam.vals.index(value) + 0.5) / len(hparam.vals)
    if isinstance(hparam, Int):
        return (float(value) - hparam.minval + 0.5) / (hparam.maxval - hparam.minval + 1)
    assert isinstance(hparam, (Double, Log))
    if isinstance(hparam, Log) and hparam.base == 1:
        return 0.5  # All values are 1, so no logarithm finds their place.
    place = math.log(value, hparam.base) if isinstance(hparam, Log) else value
    return float((place - hparam.minval) / (hparam.maxval - hparam.minval))


def _decode(hparam: HParam, x: float) -> Any:
    if isinstance(hparam, Categorical):
        return hparam.vals[min(int(x * len(hparam.vals)), len(hparam.vals) - 1)]
    if isinstance(hparam, Int):
        steps = hparam.maxval - hparam.minval + 1
        return hparam.minval + min(int(x * steps), steps - 1)
    assert isinstance(hparam, (Double, Log))
    place = hparam.minval + x * (hparam.maxval - hparam.minval)
    return hparam.base**place if isinstance(hparam, Log) else place


def _at(hparams: Mapping[str, Any], path: Path) -> Any:
    value: Any = hparams
    for name in path:
        value = value[name]
    return value


def _nest(space: Space, values: Mapping[Path, Any], prefix: Path) -> dict[str, Any]:
    hparams: dict[str, Any] = {}
    for name, hparam in space.items():
        path = (*prefix, name)
        if isinstance(hparam, Nested):
            hparams[name] = _nest(hparam.members, values, path)
        elif isinstance(hparam, Const):
            hparams[name] = hparam.val
        else:
            hparams[name] = values[path]
    return hparams
