"""Inject faults at given rates: between any two statements a process may die."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.errors import DatabaseDown, QueryFailed, TryAgain
from sqlalchemy import event

_LOCK_NOT_AVAILABLE = "55P03"
_INNERMOST = re.compile(r"\([^()]*\)")


class Died(BaseException):
    """The process died at this point. No `except Exception` of the code under test may survive it."""


class Blocked(BaseException):
    """The step waits for a lock of the step around it, and is dropped as if it had come later."""


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
    """An event at the n-th point of a step: before a statement, or on either side of a transaction."""

    at: int
    happens: Callable[[], None]
    between_transactions: bool = False  # count those sides alone


class Points:
    """Count the steps of a process, and interrupt it at the chosen ones."""

    def __init__(self) -> None:
        self._passed = {True: 0, False: 0}
        self._pending: list[Interruption] = []
        self.in_a_hurry = False
        self.wrote = False
        self.wrote_alone = False
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

    def has_run(self, sql: str, cursor: Any) -> None:
        """Record the changes of a statement. Without ORDER BY, PostgreSQL may return rows in any order; here the
        seed decides."""
        writes = not sql.lstrip().startswith("SELECT")
        self.wrote_alone |= writes
        # No invariant depends on renewed leases.
        self.wrote |= writes and cursor.rowcount != 0 and "SET last_seen_at" not in sql
        if cursor.rowcount > 1 and cursor.description and not _is_ordered(sql):
            rows = sorted(cursor.fetchall(), key=repr)
            self.rng.shuffle(rows)
            cursor._row_iter = iter(rows)


class WatchedDatabase(Database):
    """A database of which every statement is a point where the world may interrupt."""

    def __init__(self, url: str, points: Points) -> None:
        super().__init__(url, pool_size=26)
        self.points = points
        event.listen(self.engine, "before_execute", self._before)
        event.listen(self.engine, "after_cursor_execute", self._after)

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        self.points.passed(between_transactions=True)
        with _blocked(), super().begin() as tx:
            if self.points.in_a_hurry:
                _ask(tx, "BEGIN; SET LOCAL lock_timeout = 3")
            yield tx
            self.points.passed()
        self.points.passed(between_transactions=True)

    @contextmanager
    def autocommit(self) -> Iterator[Tx]:
        self.points.wrote_alone = False
        with _blocked(), super().autocommit() as tx:
            if self.points.in_a_hurry:
                _ask(tx, "SET lock_timeout = 3")
            try:
                yield tx
            finally:
                if self.points.in_a_hurry:
                    _ask(tx, "RESET lock_timeout")
        if self.points.wrote_alone:
            self.points.passed(between_transactions=True)

    def _before(self, *arguments: Any) -> None:
        self.points.passed()

    def _after(self, connection: Any, cursor: Any, sql: str, *arguments: Any) -> None:
        self.points.has_run(sql, cursor)


def _ask(tx: Tx, sql: str) -> None:
    """Ask past the points of interruption."""
    driver: Any = tx.connection.driver_connection
    driver.execute_simple(sql)


@contextmanager
def _blocked() -> Iterator[None]:
    try:
        yield
    except QueryFailed as e:
        if e.sqlstate == _LOCK_NOT_AVAILABLE:
            raise Blocked from e
        raise


@cache
def _is_ordered(sql: str) -> bool:
    """Return whether the outermost query has an ORDER BY; parentheses contain inner queries."""
    while sql != (shorter := _INNERMOST.sub("", sql)):
        sql = shorter
    return "ORDER BY" in sql


def die() -> None:
    raise Died


def lose_the_database() -> None:
    raise DatabaseDown("the database does not answer: simulated")


def collide() -> None:
    raise TryAgain("deadlock detected: simulated")
