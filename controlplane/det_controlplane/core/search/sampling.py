"""Draw hyperparameters in the sorted order of names. The result has the user's order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

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

from .actions import Create
from .ending import Ending
from .rng import Rng

Draw = Callable[[Rng], Any]


class Sampler:
    """Create the trials of a search. The generator draws the hyperparameters, then the request id, then the seed."""

    __slots__ = ("_draw", "rng", "space")

    def __init__(self, space: Space, rng: Rng) -> None:
        self.space = space
        self.rng = rng
        self._draw = _draw_all(space)

    def hparams(self) -> dict[str, Any]:
        return self._draw(self.rng)

    def create(
        self, hparams: dict[str, Any] | None = None, warm_start_from: str | None = None
    ) -> Create:
        values = self.hparams() if hparams is None else hparams
        request_id = self.rng.uuid4()
        return Create(request_id, self.rng.seed31(), values, warm_start_from)


def draw_of(hparam: HParam) -> Draw:
    """Return a function that samples one hyperparameter."""
    if isinstance(hparam, Int):
        low, high = hparam.minval, hparam.maxval + 1
        return lambda rng: rng.integer(low, high)
    if isinstance(hparam, Double):
        start, width = hparam.minval, hparam.maxval - hparam.minval
        return lambda rng: start + width * rng.uniform()
    if isinstance(hparam, Log):
        base, start, width = hparam.base, hparam.minval, hparam.maxval - hparam.minval
        return lambda rng: base ** (start + width * rng.uniform())
    if isinstance(hparam, Categorical):
        vals, count = hparam.vals, len(hparam.vals)
        return lambda rng: vals[rng.below(count)]
    if isinstance(hparam, Nested):
        return _draw_all(hparam.members)
    return _constant(hparam)


def _constant(hparam: Const) -> Draw:
    value = hparam.val
    return lambda rng: value


def _draw_all(space: Space) -> Callable[[Rng], dict[str, Any]]:
    draws = [(name, draw_of(space[name])) for name in sorted(space)]

    def draw(rng: Rng) -> dict[str, Any]:
        values = {name: draw(rng) for name, draw in draws}
        return {name: values[name] for name in space}

    return draw


class Proposal:
    """Propose independent samples. Methods that learn override the hooks to make better proposals."""

    has_model: ClassVar[bool] = False  # see Method.has_model
    considered: ClassVar[int] = 1  # the number of waiting trials that `choose` compares

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def create(self) -> Create:
        return self._sampler.create()

    def record(self, request_id: str, rung: int, loss: float) -> None:
        """Record that a trial reached a rung with this loss."""

    def resume(self, waits: Callable[[str], bool]) -> str | None:
        """Return a waiting trial to continue instead of a new one, or None. `waits` says if a trial waits."""
        return None

    def choose(self, waiting: Sequence[str]) -> str:
        """Return the trial to promote. `waiting` has the best trials of a rung, the best first."""
        return waiting[0]

    def expected_gain(self) -> float | None:
        """Return the expected improvement of the metric by another full training, if there is a model."""
        return None

    def ending(self) -> Ending | None:
        """Return why no more trials should be trained, or None."""
        return None

    def forget(self, request_id: str) -> None:
        """Remove the records of a trial with invalid hyperparameters."""

    def close(self, request_id: str) -> None:
        """Handle a trial that will not report again."""

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a snapshot."""
