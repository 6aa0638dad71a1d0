"""A database as services use it: transactions, statements of their own, and parameters that are JSON."""

import copy
import json
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import Connection, Executable, Row

from det_controlplane.db.engine.connections import (
    PATIENCE_S,
    Pausing,
    ScarceConnections,
    connected,
    pooled_engine,
)
from det_controlplane.db.engine.errors import DatabaseDown

Params = Mapping[str, Any]
Tx = Connection
"""A transaction, or a connection that needs none."""

_JSON = json.JSONEncoder(separators=(",", ":"), default=str)

# A NUL, or a surrogate that may be alone.
_DOUBTFUL = re.compile(r"\\u(?:0000|d[89a-f])")
_READ = sa.text("SELECT cast(:value AS jsonb) IS NOT NULL")

# The default of a process: sixteen requests at once, the loops beside them, and bursts.
_MOST = 32
_PUT_OFF = 100


class TransactionHook(Protocol):
    """Writes rows of its own within each transaction of a database (services.recorder)."""

    def before_commit(self, tx: Tx) -> None: ...

    def committed(self) -> None: ...


# Shorter listings are counted for each page, which takes a few milliseconds.
LONG_TOTAL = 10_000
TOTALS_KEPT_S = 15.0
_MOST_TOTALS = 256


class Totals:
    """The totals of long listings by subject, because each page would count a hundred thousand rows again.

    Each process has one object; its threads may use it at the same time.
    """

    def __init__(self) -> None:
        self._totals: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def get(self, subject: Hashable) -> int | None:
        until, total = self._totals.get(subject, (0.0, 0))
        return total if time.monotonic() < until else None

    def keep(self, subject: Hashable, total: int) -> None:
        if total < LONG_TOTAL:
            self._totals.pop(subject, None)
            return
        self._totals[subject] = (time.monotonic() + TOTALS_KEPT_S, total)
        while len(self._totals) > _MOST_TOTALS:
            self._totals.popitem(last=False)


class Database:
    """The engine and the two ways to use it. It opens `pool_size` connections at most; callers beyond that wait."""

    def __init__(self, url: str, *, pool_size: int = _MOST, pausing: Pausing | None = None) -> None:
        self.url = url
        self.totals = Totals()
        self.engine = pooled_engine(url, pool_size, pausing or Pausing(), as_json)
        self._limit = _ConnectionLimit(pool_size)
        self._hook: TransactionHook | None = None
        self._scarce = ScarceConnections(self.engine) if pausing and pausing.idle_s else None

    def with_hook(self, hook: TransactionHook) -> "Database":
        """Return the same database. The hook takes part in transactions that are begun by it."""
        database = copy.copy(self)
        database._hook = hook
        return database

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        """Open a transaction that commits when the block ends, and rolls back when it raises."""
        hook = self._hook
        with self._limit.held(), connected(self.engine) as connection, connection.begin():
            yield connection
            if hook is not None:
                hook.before_commit(connection)
        if hook is not None:
            hook.committed()

    @contextmanager
    def autocommit(self) -> Iterator[Tx]:
        """Open a connection on which each statement is a transaction: one round trip, where `begin` takes two more.

        At READ COMMITTED statements that only read see the same either way."""
        with self._limit.held(), connected(self.engine) as connection:
            # Not `isolation_level`: SQLAlchemy would set the session's back at the end, in three more round trips.
            driver: Any = connection.connection.driver_connection
            driver.autocommit = True
            try:
                yield connection
            finally:
                driver.autocommit = False

    def read(self, statement: Executable, params: Params | None = None) -> Sequence[Row[Any]]:
        """Return the rows of one statement that only reads."""
        with self.autocommit() as connection:
            return connection.execute(statement, params).all()

    @property
    def uses(self) -> int:
        """Return how often the database was used with success."""
        return self._limit.uses

    def when_free(self, act: Callable[[], None]) -> None:
        """Call `act` now, or after this thread has released its connection.

        With a second connection for secondary work, threads could wait for each other."""
        self._limit.when_free(act)

    def rest(self) -> None:
        """Leave the connection to others, where the database has few left: this process may freeze now."""
        if self._scarce:
            self._scarce.give_back()

    def dispose(self) -> None:
        self.engine.dispose()


class _ConnectionLimit:
    """Limit the threads that hold connections, and collect the actions that they postpone.

    A thread with a connection that needs a second one gets it beyond the limit, because it could wait for itself
    otherwise."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._room = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self.uses = 0
        self._counts: dict[int, int] = {}
        self._later: dict[int, deque[Callable[[], None]]] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        thread = threading.get_ident()
        if thread not in self._counts and not self._room.acquire(timeout=PATIENCE_S):
            raise DatabaseDown(
                f"the database does not answer: all {self._most} connections of this process are taken"
            )
        with self._lock:
            self._counts[thread] = self._counts.get(thread, 0) + 1
        try:
            yield
            self.uses += 1
        finally:
            self._release(thread)

    def when_free(self, act: Callable[[], None]) -> None:
        thread = threading.get_ident()
        with self._lock:
            if thread in self._counts:
                self._later.setdefault(thread, deque(maxlen=_PUT_OFF)).append(act)
                return
        act()

    def _release(self, thread: int) -> None:
        with self._lock:
            self._counts[thread] -= 1
            if self._counts[thread]:
                return
            del self._counts[thread]
            self._room.release()
            callbacks = self._later.pop(thread, ())
        for act in callbacks:
            act()


def as_json(value: Any) -> str:
    """Make a parameter for a `cast(:x as jsonb)`."""
    return _JSON.encode(value)


def as_ordered_json(tx: Tx, value: Any) -> str:
    """Make a parameter for a `cast(:x as json)`, which would take texts that PostgreSQL cannot read again."""
    json_text = as_json(value)
    if _DOUBTFUL.search(json_text):
        tx.execute(_READ, {"value": json_text})
    return json_text
