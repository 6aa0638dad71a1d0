"""Batching: one thread works on the items of several requests, for example in one transaction."""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from det_controlplane.db.engine.errors import (
    DatabaseDown,
    QueryFailed,
    TryAgain,
    Unstorable,
    Violated,
)

_PATIENCE_S = 0.1  # longest wait for a batch; later items start another one
T = TypeVar("T")
R = TypeVar("R")


class BatchRejected(TryAgain):
    """The items of a batch cannot be stored in one transaction: each is to be stored alone."""


_NOT_TOGETHER = (Unstorable, Violated, TryAgain)


def _no_turn(about: Hashable) -> AbstractContextManager[None]:
    return nullcontext()


def _ignore() -> None:
    return None


@dataclass(slots=True, eq=False)
class Ticket(Generic[T, R]):
    """An item that waits for a batch. The thread that works on the batch sets the result."""

    item: T
    wake: Callable[[], object] = _ignore  # called once it is answered or has to lead a batch
    answered: bool = False
    result: R | None = None
    error: BaseException | None = None

    def answer(self, result: R) -> None:
        self.answered, self.result = True, result

    def fail(self, error: BaseException) -> None:
        self.answered, self.error = True, error


Work = Callable[[Sequence[Ticket[T, R]]], None]


@dataclass(slots=True, eq=False)
class _Batch(Generic[T, R]):
    tickets: list[Ticket[T, R]]
    began: float

    @property
    def hangs(self) -> bool:
        """Return whether later items no longer wait for the batch."""
        return time.monotonic() - self.began > _PATIENCE_S


@dataclass(slots=True, eq=False)
class _Queue(Generic[T, R]):
    """The tickets of a subject: waiting in the order in which they came, and in batches."""

    waiting: list[Ticket[T, R]] = field(default_factory=list)
    leader: Ticket[T, R] | None = None  # it is to lead the next batch, and waits for its turn
    batches: list[_Batch[T, R]] = field(default_factory=list)

    def next_leader(self, at_once: int) -> Ticket[T, R] | None:
        """Return the first waiting ticket if it is to lead a batch now.

        A further batch begins beside others, which wait for the disk, once it has as many items as the first."""
        batches = [batch for batch in self.batches if not batch.hangs]
        if self.leader is not None or not self.waiting or len(batches) >= at_once:
            return None
        if batches and len(self.waiting) < len(batches[0].tickets):
            return None
        self.leader = self.waiting[0]
        return self.leader


class Batcher(Generic[T, R]):
    """Collect the items of a subject that arrive while earlier ones are worked on. They form the next batch.

    The first item of a batch leads it. `turn` is the lock that the leader must hold; items that arrive before it is
    acquired join the batch. Threads use `take`. Event loops use `join` and `lead`, which runs in a thread."""

    def __init__(
        self,
        turn: Callable[[Any], AbstractContextManager[None]] = _no_turn,
        *,
        most: int = 32,
        at_once: int = 1,
    ) -> None:
        self._most, self._turn, self._at_once = most, turn, at_once
        self._lock = threading.Lock()
        self._queues: dict[Hashable, _Queue[T, R]] = {}

    def take(self, about: Hashable, item: T, work: Work[T, R]) -> R | None:
        """Work on an item, in this thread or another that gathers several; return the result.

        `work` answers the tickets that it is given, the first one in any case, or leaves them for its next call."""
        called = threading.Lock()
        called.acquire()
        own: Ticket[T, R] = Ticket(item, called.release)
        if not self.join(about, own):
            called.acquire()
        if not own.answered:
            self.lead(about, own, work)
        if own.error is not None:
            raise own.error
        return own.result

    def waiting(self, about: Hashable) -> int:
        """Return the number of items that have no result yet."""
        with self._lock:
            queue = self._queues.get(about, _Queue[T, R]())
            return len(queue.waiting) + sum(len(batch.tickets) for batch in queue.batches)

    def is_starting(self, about: Hashable) -> bool:
        """Return whether an item has to lead a batch and waits for its turn."""
        with self._lock:
            queue = self._queues.get(about)
            return queue is not None and queue.leader is not None

    def join(self, about: Hashable, own: Ticket[T, R]) -> bool:
        """Add a ticket. Return whether it has to lead a batch now. Otherwise it is woken later."""
        with self._lock:
            queue = self._queues.setdefault(about, _Queue())
            queue.waiting.append(own)
            leader = queue.next_leader(self._at_once)
        if leader is not None and leader is not own:
            leader.wake()
        return leader is own

    def lead(self, about: Hashable, own: Ticket[T, R], work: Work[T, R]) -> None:
        """Work on the waiting tickets, beginning with `own`. Wake all other answered tickets."""
        batch: _Batch[T, R] = _Batch([own], time.monotonic())
        try:
            with self._turn(about):
                with self._lock:
                    queue = self._queues[about]
                    batch = _Batch(queue.waiting[: self._most], time.monotonic())
                    del queue.waiting[: self._most]
                    queue.leader = None
                    queue.batches.append(batch)
                    leader = queue.next_leader(self._at_once)
                if leader is not None:
                    leader.wake()
                work(batch.tickets)
        except Exception as e:
            for ticket in batch.tickets:
                if not ticket.answered:
                    ticket.fail(e)
        finally:
            # This also runs for BaseExceptions, so that the other threads continue.
            own.answered = True
            self._end(about, own, batch)

    def _end(self, about: Hashable, own: Ticket[T, R], batch: _Batch[T, R]) -> None:
        with self._lock:
            queue = self._queues[about]
            if batch in queue.batches:
                queue.batches.remove(batch)
                queue.waiting[:0] = [t for t in batch.tickets if not t.answered]
            else:  # it had no turn
                queue.waiting.remove(own)
                queue.leader = None
            leader = queue.next_leader(self._at_once)
            if not queue.waiting and not queue.batches:
                del self._queues[about]
        if leader is not None:
            leader.wake()
        for ticket in batch.tickets:
            if ticket.answered and ticket is not own:
                ticket.wake()


def together_or_each(tickets: Sequence[Ticket[T, bool]], store: Work[T, bool]) -> None:
    """Store tickets in one transaction or, where one of them stands in its way, each in its own.

    A ticket that cannot be stored alone either fails. Tickets that `store` leaves unanswered stay so."""
    try:
        store(tickets)
    except _NOT_TOGETHER:
        _store_each(tickets, store)
    except Exception as e:
        if len(tickets) == 1 or _is_of_database(e):
            raise
        _store_each(tickets, store)


def _store_each(tickets: Sequence[Ticket[T, bool]], store: Work[T, bool]) -> None:
    for ticket in tickets:
        if ticket.answered:
            continue
        try:
            store([ticket])
        except Exception as e:
            if _is_of_database(e):
                raise  # the others would only wait as long for the same
            ticket.fail(e)


def _is_of_database(e: Exception) -> bool:
    """Return whether the database caused a failure, so that other tickets would fail as well."""
    return isinstance(e, DatabaseDown) or (isinstance(e, QueryFailed) and e.is_of_time)
