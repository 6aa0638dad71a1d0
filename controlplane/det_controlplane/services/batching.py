"""Batching: one thread stores the reports of several threads in one transaction."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from det_controlplane.db.engine.errors import (
    DatabaseDown,
    QueryFailed,
    TryAgain,
    Unstorable,
    Violated,
)

_PATIENCE_S = 0.1  # longest wait for a working thread; later items start a new queue
T = TypeVar("T")
R = TypeVar("R")


class BatchRejected(TryAgain):
    """The items of a batch cannot be stored in one transaction: each is to be stored alone."""


_NOT_TOGETHER = (Unstorable, Violated, TryAgain)


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _no_turn(about: int) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(slots=True, eq=False)
class Ticket(Generic[T, R]):
    """An item that waits for a batch. The thread that works on the batch sets the result."""

    item: T
    answered: bool = False
    result: R | None = None
    error: BaseException | None = None
    called: threading.Lock = field(default_factory=_locked)  # released when answered, or first

    def answer(self, result: R) -> None:
        self.answered, self.result = True, result

    def fail(self, error: BaseException) -> None:
        self.answered, self.error = True, error


@dataclass(slots=True, eq=False)
class _Queue(Generic[T, R]):
    """Tickets in the order in which they came; the thread of the first one works on them."""

    tickets: list[Ticket[T, R]] = field(default_factory=list)
    began: float | None = None  # of the work on the first of them

    @property
    def hangs(self) -> bool:
        """Return whether it is better not to wait for the work under way."""
        return self.began is not None and time.monotonic() - self.began > _PATIENCE_S


Work = Callable[[Sequence[Ticket[T, R]]], None]


class Batcher(Generic[T, R]):
    """Collect the items of a subject that arrive while a thread works on earlier ones. They form the next batch.

    `turn` is the lock that the working thread must hold. Items that arrive before it is acquired join the batch."""

    def __init__(
        self, turn: Callable[[int], AbstractContextManager[None]] = _no_turn, most: int = 32
    ) -> None:
        self._most, self._turn = most, turn
        self._lock = threading.Lock()
        self._queues: dict[int, _Queue[T, R]] = {}

    def take(self, about: int, item: T, work: Work[T, R]) -> R | None:
        """Work on an item, in this thread or another that gathers several; return the result.

        `work` answers the tickets that it is given, the first one in any case, or leaves them for its next call."""
        own: Ticket[T, R] = Ticket(item)
        queue, is_first = self._join(about, own)
        if not is_first:
            own.called.acquire()
        if not own.answered:
            self._lead(about, queue, own, work)
        if own.error is not None:
            raise own.error
        return own.result

    def waiting(self, about: int) -> int:
        with self._lock:
            queue = self._queues.get(about)
            return len(queue.tickets) if queue else 0

    def _join(self, about: int, own: Ticket[T, R]) -> tuple[_Queue[T, R], bool]:
        """Return also whether the ticket is the first one of its queue."""
        with self._lock:
            queue = self._queues.get(about)
            if queue is None or queue.hangs:
                queue = self._queues[about] = _Queue()
            queue.tickets.append(own)
            return queue, queue.tickets[0] is own

    def _lead(self, about: int, queue: _Queue[T, R], own: Ticket[T, R], work: Work[T, R]) -> None:
        tickets = [own]
        try:
            with self._turn(about):
                with self._lock:
                    tickets = queue.tickets[: self._most]
                    queue.began = time.monotonic()
                work(tickets)
        except Exception as e:
            for ticket in tickets:
                if not ticket.answered:
                    ticket.fail(e)
        finally:
            # This also runs for BaseExceptions, so that the other threads continue.
            own.answered = True
            self._call(about, queue, [t for t in tickets if t.answered and t is not own])

    def _call(self, about: int, queue: _Queue[T, R], answered: Sequence[Ticket[T, R]]) -> None:
        """Wake the thread of the first remaining ticket, and the threads of answered tickets."""
        with self._lock:
            queue.tickets = [t for t in queue.tickets if not t.answered]
            queue.began = None
            if queue.tickets:
                queue.tickets[0].called.release()
            elif self._queues.get(about) is queue:
                del self._queues[about]
        for ticket in answered:
            ticket.called.release()


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
