"""Let one thread store, in one transaction, what several threads have to report of an experiment."""

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Ticket(Generic[T]):
    """A report that waits; the thread that stores it tells how that went."""

    item: T
    answered: bool = False
    fulfilled: bool = False
    error: BaseException | None = None

    def answer(self, fulfilled: bool) -> None:
        self.answered, self.fulfilled = True, fulfilled

    def fail(self, error: BaseException) -> None:
        self.answered, self.error = True, error


class ReportQueue(Generic[T]):
    """Keeps reports that wait, by experiment, in the order in which they came."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: defaultdict[int, list[Ticket[T]]] = defaultdict(list)

    def join(self, about: int, item: T) -> Ticket[T]:
        ticket = Ticket(item)
        with self._lock:
            self._waiting[about].append(ticket)
        return ticket

    def waiting(self, about: int) -> int:
        with self._lock:
            return len(self._waiting.get(about, ()))

    def take(self, about: int) -> list[Ticket[T]]:
        """The first of those that wait; whoever takes them answers them, or puts them back."""
        with self._lock:
            waiting = self._waiting.pop(about, [])
            if len(waiting) > self._most:
                self._waiting[about] = waiting[self._most :]
        return waiting[: self._most]

    def put_back(self, about: int, tickets: list[Ticket[T]]) -> None:
        if tickets:
            with self._lock:
                self._waiting[about] = [*tickets, *self._waiting[about]]
