"""What a pass answers: who starts, who has to leave, who waits and why."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, starmap
from typing import NamedTuple, cast, overload

from .model import PoolSnapshot, Preempt, Request, Start, Told
from .outcome import Cause, Outcome, Unexplained
from .queue_order import jobs_ahead


class Waiting(NamedTuple):
    allocation_id: str
    reason: Told
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
        outcome: Outcome,
        explain: Callable[[Unexplained], Told],
        snapshot: PoolSnapshot,
    ) -> None:
        self._queued = outcome.queued
        self._unexplained = outcome.unexplained
        self._snapshot = snapshot
        self._explain = explain
        self._words: dict[Unexplained, Told] = {}

    def told(self) -> Iterator[tuple[str, Told]]:
        """Each allocation with why it waits, at the price of a loop."""
        return chain.from_iterable(starmap(self._told_of, self._queued))

    def _told_of(
        self, requests: Sequence[Request], causes: list[Cause | None]
    ) -> Iterator[tuple[str, Told]]:
        waiting = compress([r.allocation_id for r in requests], causes)
        return zip(waiting, filter(None, self._in_words(causes)), strict=True)

    def _in_words(self, causes: list[Cause | None]) -> Sequence[Told | None]:
        if not self._unexplained:
            return cast("list[Told | None]", causes)
        return [c if type(c) is Told or c is None else self._explained(c) for c in causes]

    def _explained(self, cause: Unexplained) -> Told:
        if cause not in self._words:
            self._words[cause] = self._explain(cause)
        return self._words[cause]

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
        jobs = {request.allocation_id: request.job.id for request in self._snapshot.pending}
        return [Waiting(id, told, ahead[jobs[id]]) for id, told in self.told()]


@dataclass(frozen=True)
class SchedulePlan:
    start: tuple[Start, ...]
    preempt: tuple[Preempt, ...]
    waiting: WaitingList
    snapshot: PoolSnapshot

    @cached_property
    def jobs_ahead(self) -> Mapping[str, int]:
        return jobs_ahead(self.snapshot)
