"""`grid`: every combination of the axes, starting with the last combination."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.hparams import Categorical, Const, HParam, Int, Log, Nested, Space

from .actions import Action
from .method import MOST_AT_ONCE, NOTHING, Method, SearchFailed
from .random_search import with_length
from .sampling import Sampler


class GridSearch(Method):
    def __init__(self, sampler: Sampler, max_concurrent: int, length: int | None = None) -> None:
        self._sampler = sampler
        self._axes = axes_of(sampler.space)
        self._remaining = math.prod(len(values) for _, values in self._axes)
        self._at_once = min(max_concurrent or self._remaining, MOST_AT_ONCE)
        self._length = length

    def started(self) -> Sequence[Action]:
        first = min(self._remaining, self._at_once)
        return [action for _ in range(first) for action in self._create()]

    def exited(self, request_id: str) -> Sequence[Action]:
        return self._create() if self._remaining else NOTHING

    def uncreated(self) -> int:
        return self._remaining

    def snapshot(self) -> dict[str, Any]:
        return {"remaining": self._remaining}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._remaining = state["remaining"]

    def _create(self) -> list[Action]:
        self._remaining -= 1
        point = _point(self._axes, self._remaining)
        hparams = _nest(self._sampler.space, point)
        return with_length(self._sampler.create(hparams), self._length)


Path = tuple[str, ...]
Axis = tuple[Path, list[Any]]


def grid_size(space: Space) -> int:
    return math.prod(len(values) for _, values in axes_of(space))


def axes_of(space: Space, prefix: Path = ()) -> list[Axis]:
    """Return the leaves of the space with their values. Names are sorted at every level."""
    axes: list[Axis] = []
    for name in sorted(space):
        hparam, path = space[name], (*prefix, name)
        if isinstance(hparam, Nested):
            axes.extend(axes_of(hparam.members, path))
        else:
            axes.append((path, _values(hparam, path)))
    return axes


def _values(hparam: HParam, path: Path) -> list[Any]:
    if isinstance(hparam, Const):
        return [hparam.val]
    if isinstance(hparam, Categorical):
        return list(hparam.vals)
    assert not isinstance(hparam, Nested)
    if hparam.count is None:
        raise SearchFailed(
            f"hyperparameter {'.'.join(path)} has no count; a grid search needs one for every "
            "int, double and log hyperparameter"
        )
    if isinstance(hparam, Int):
        count = min(hparam.count, hparam.maxval - hparam.minval + 1)
        return [_round(value) for value in _points(hparam.minval, hparam.maxval, count)]
    points = _points(hparam.minval, hparam.maxval, hparam.count)
    return [hparam.base**point for point in points] if isinstance(hparam, Log) else points


def _points(low: float, high: float, count: int) -> list[float]:
    if count == 1:
        return [low + (high - low) / 2]
    return [low + i * (high - low) / (count - 1) for i in range(count)]


def _round(value: float) -> int:
    """Round half away from zero. Rounding half to even would make uneven grids."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _point(axes: list[Axis], index: int) -> dict[Path, Any]:
    """Return one point without building the others, because grids may have millions of points."""
    point: dict[Path, Any] = {}
    for path, values in reversed(axes):
        index, digit = divmod(index, len(values))
        point[path] = values[digit]
    return point


def _nest(space: Space, point: Mapping[Path, Any], prefix: Path = ()) -> dict[str, Any]:
    hparams: dict[str, Any] = {}
    for name, hparam in space.items():
        path = (*prefix, name)
        if isinstance(hparam, Nested):
            hparams[name] = _nest(hparam.members, point, path)
        else:
            hparams[name] = point[path]
    return hparams
