"""What a pass answers: who starts, who has to leave, who waits and why."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, starmap
from operator import attrgetter
from typing import NamedTuple, overload

from .model import PoolSnapshot, Preempt, Request, Start, Told, WaitCode
from .outcome import Cause, Queued
from .queue_order import jobs_ahead

_id = attrgetter("allocation_id")


class Reason:
    """Shared by all allocations that wait for the same thing; put into words when somebody reads it."""

    __slots__ = ("_tell", "_told")

    def __init__(self, tell: Callable[[], Told]) -> None:
        self._tell = tell
        self._told: Told | None = None

    @property
    def told(self) -> Told:
        if self._told is None:
            self._told = self._tell()
        return self._told

    @property
    def code(self) -> WaitCode:
        return self.told.code

    @property
    def sentence(self) -> str:
        return self.told.sentence

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and self.told == other.told

    def __hash__(self) -> int:
        return hash(self.told)

    def __repr__(self) -> str:
        return f"Reason({self.code.value}: {self.sentence})"


class Waiting(NamedTuple):
    allocation_id: str
    reason: Reason
    jobs_ahead: int  # -1 where the scheduler keeps no order

    @property
    def sentence(self) -> str:
        """The reason with the place in the queue; put together only when somebody asks."""
        if self.jobs_ahead < 1:
            return self.reason.sentence
        noun = "job is" if self.jobs_ahead == 1 else "jobs are"
        return f"{self.reason.sentence}; {self.jobs_ahead} {noun} ahead"


class WaitingList(Sequence[Waiting]):
    """Kept as the pass left it, because ten thousand may wait; an entry is put together when somebody looks at it."""

    def __init__(
        self,
        queued: Sequence[Queued],
        explain: Callable[[Cause], Told],
        snapshot: PoolSnapshot,
    ) -> None:
        self._queued = queued
        self._snapshot = snapshot
        self._explain = explain
        self._reasons: dict[Cause, Reason] = {}

    def told(self) -> Iterator[tuple[str, Told]]:
        """Each allocation with why it waits, at the price of a loop."""
        return chain.from_iterable(starmap(self._told_of, self._queued))

    def _told_of(
        self, requests: Sequence[Request], causes: list[Cause | None]
    ) -> Iterator[tuple[str, Told]]:
        waiting: Iterator[Cause] = filter(None, causes)
        told = map(self._tolds.__getitem__, waiting)
        return zip(compress(map(_id, requests), causes), told, strict=True)

    def __len__(self) -> int:
        return sum(len(causes) - causes.count(None) for _, causes in self._queued)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._entries)

    @overload
    def __getitem__(self, index: int) -> Waiting: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Waiting]: ...
    def __getitem__(self, index: int | slice) -> Waiting | Sequence[Waiting]:
        return self._entries[index]

    @cached_property
    def _entries(self) -> list[Waiting]:
        ahead = jobs_ahead(self._snapshot)
        return [
            Waiting(request.allocation_id, self._reason(cause), ahead[request.job.id])
            for requests, causes in self._queued
            for request, cause in zip(requests, causes, strict=True)
            if cause is not None
        ]

    @cached_property
    def _tolds(self) -> dict[Cause, Told]:
        every = {cause for _, causes in self._queued for cause in set(causes) if cause is not None}
        return {cause: self._explain(cause) for cause in every}

    def _reason(self, cause: Cause) -> Reason:
        if cause not in self._reasons:
            self._reasons[cause] = Reason(lambda: self._explain(cause))
        return self._reasons[cause]


@dataclass(frozen=True)
class SchedulePlan:
    start: tuple[Start, ...]
    preempt: tuple[Preempt, ...]
    waiting: WaitingList
    snapshot: PoolSnapshot

    @cached_property
    def jobs_ahead(self) -> Mapping[str, int]:
        return jobs_ahead(self.snapshot)
