"""`random` and `single`: independent samples with a limited number of concurrent trials."""

from collections.abc import Mapping, Sequence
from typing import Any

from .actions import Action, Create, TrainTo
from .method import MOST_AT_ONCE, NOTHING, Method
from .sampling import Sampler


class RandomSearch(Method):
    def __init__(
        self, sampler: Sampler, max_trials: int, max_concurrent: int, length: int | None = None
    ) -> None:
        self._sampler = sampler
        self._max_trials = max_trials
        self._at_once = min(max_trials, max_concurrent or MOST_AT_ONCE, MOST_AT_ONCE)
        self._length = length
        self._created = 0

    def started(self) -> Sequence[Action]:
        return [action for _ in range(self._at_once) for action in self._create()]

    def invalid(self, request_id: str) -> Sequence[Action]:
        self._created -= 1  # `exited` then creates a replacement
        return NOTHING

    def exited(self, request_id: str) -> Sequence[Action]:
        return self._create() if self._created < self._max_trials else NOTHING

    def uncreated(self) -> int:
        return self._max_trials - self._created

    def snapshot(self) -> dict[str, Any]:
        return {"created": self._created}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._created = state["created"]

    def _create(self) -> list[Action]:
        self._created += 1
        return with_length(self._sampler.create(), self._length)


def with_length(create: Create, length: int | None) -> list[Action]:
    """Return the creation with its training length, if the configuration has one (`max_length`)."""
    if length is None:
        return [create]
    return [create, TrainTo(create.request_id, length)]
