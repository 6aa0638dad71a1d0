"""What goes wrong, how often, and where: between any two statements a process may die."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from det_controlplane.db.engine import Database, DatabaseDown, Params, QueryFailed, TryAgain, Tx
from det_controlplane.db.prepared import Check, Question
from det_controlplane.db.sql import Statement, text

_LOCK_NOT_AVAILABLE = "55P03"
_INNERMOST = re.compile(r"\([^()]*\)")
_HURRY = text("SET LOCAL lock_timeout = 3")


class Died(BaseException):
    """The process ended here. No `except Exception` of the code under test may survive it."""


class Blocked(BaseException):
    """It waits for a lock of the step around it: as if it had come later."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Probabilities: of a step of the control plane, a message, or a moment of an actor's life."""

    dies: float = 0.12
    database_fails: float = 0.04
    interleaved: float = 0.6
    request_lost: float = 0.03
    answer_lost: float = 0.03
    repeated: float = 0.05
    wake_lost: float = 0.15
    agent_trouble: float = 0.5
    program_trouble: float = 0.07


PEACE = Rates(*[0.0] * 9)


@dataclass(slots=True)
class Interruption:
    """What happens at the n-th point of a step: before a statement, or on either side of a transaction."""

    at: int
    happens: Callable[[], None]
    between_transactions: bool = False  # count those sides alone


class Points:
    """Counts the points of the step that a process is in, and interrupts it at those that were chosen."""

    def __init__(self) -> None:
        self._passed = {True: 0, False: 0}
        self._pending: list[Interruption] = []
        self.in_a_hurry = False
        self.wrote = False
        self.rng = Random(0)

    def begin_step(self, interruptions: Sequence[Interruption], *, in_a_hurry: bool) -> None:
        self._passed = {True: 0, False: 0}
        self._pending = list(interruptions)
        self.in_a_hurry = in_a_hurry

    def passed(self, *, between_transactions: bool = False) -> None:
        self._passed[False] += 1
        self._passed[True] += between_transactions
        for due in [i for i in self._pending if i.at <= self._passed[i.between_transactions]]:
            self._pending.remove(due)
            due.happens()

    def in_some_order(self, statement: Statement, rows: Sequence[Any]) -> Sequence[Any]:
        """Where a statement asks for no order PostgreSQL may choose any: here the seed does."""
        if len(rows) < 2 or _is_ordered(statement.text):
            return rows
        drawn = sorted(rows, key=repr)
        self.rng.shuffle(drawn)
        return drawn


class WatchedTx(Tx):
    """A transaction whose every statement is a point where the world may interrupt."""

    def __init__(self, tx: Tx, points: Points) -> None:
        super().__init__(tx.connection)
        self._points = points
        self.committed = False

    def rows(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        self._points.passed()
        found = super().rows(statement, params)
        self._points.wrote |= bool(found) and _writes(statement)
        return self._points.in_some_order(statement, found)

    def run(self, statement: Statement, params: Params | None = None) -> int:
        self._points.passed()
        changed = super().run(statement, params)
        self._points.wrote |= changed != 0
        return changed

    def send(self, statement: Statement, params: Params | None = None) -> None:
        self._points.passed()
        super().send(statement, params)
        self._points.wrote = True

    def run_last(self, statement: Statement, params: Params | None = None) -> int:
        self._points.passed()
        changed = super().run_last(statement, params)
        self._points.wrote |= changed != 0
        self._has_committed()
        return changed

    def rows_last(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        self._points.passed()
        found = super().rows_last(statement, params)
        self._points.wrote |= bool(found) and _writes(statement)
        self._has_committed()
        return self._points.in_some_order(statement, found)

    def _has_committed(self) -> None:
        # What fails from here on fails after the commit.
        self.committed = True
        self._points.passed(between_transactions=True)


class WatchedDatabase(Database):
    def __init__(self, url: str, points: Points) -> None:
        super().__init__(url, pool_size=2)
        self.points = points

    def read(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        self.points.passed()
        return self.points.in_some_order(statement, super().read(statement, params))

    def read_after(
        self, first: Question, check: Check, statement: Statement, params: Params | None = None
    ) -> Sequence[Any]:
        self.points.passed()
        found = super().read_after(first, check, statement, params)
        return self.points.in_some_order(statement, found)

    def alone(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        with self.begin() as tx:
            return tx.rows(statement, params)

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        self.points.passed(between_transactions=True)
        try:
            with super().begin() as tx:
                if self.points.in_a_hurry:
                    tx.run(_HURRY)
                watched = WatchedTx(tx, self.points)
                yield watched
                if not watched.committed:
                    self.points.passed()
        except QueryFailed as e:
            if e.sqlstate == _LOCK_NOT_AVAILABLE:
                raise Blocked from e
            raise
        if not watched.committed:
            self.points.passed(between_transactions=True)


def _writes(statement: Statement) -> bool:
    """Whether rows come back from a change. Renewing a lease changes nothing that an invariant is about."""
    sql = statement.text.lstrip()
    return not sql.startswith("SELECT") and "SET last_seen_at" not in sql


@cache
def _is_ordered(sql: str) -> bool:
    """By the outermost query: what is in parentheses orders something else."""
    while sql != (shorter := _INNERMOST.sub("", sql)):
        sql = shorter
    return "ORDER BY" in sql


def die() -> None:
    raise Died


def lose_the_database() -> None:
    raise DatabaseDown("the database does not answer: simulated")


def collide() -> None:
    raise TryAgain("deadlock detected: simulated")
