"""SQLAlchemy's engine over pg8000: pool, transactions, TLS, and the errors that the rest of the program knows."""

import json
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Protocol

import pg8000
import sqlalchemy as sa
from sqlalchemy import Connection, Engine, Executable, Row, event, exc
from sqlalchemy.engine import URL, ExceptionContext, make_url

from det_controlplane.db.crowding import Crowding
from det_controlplane.db.patient_connection import Asleep, connect_patiently

Params = Mapping[str, Any]
Tx = Connection
"""A transaction, or a connection that needs none."""

_JSON = json.JSONEncoder(separators=(",", ":"), default=str)

# A NUL, or a surrogate that may be alone.
_DOUBTFUL = re.compile(r"\\u(?:0000|d[89a-f])")
_READ = sa.text("SELECT cast(:value AS jsonb) IS NOT NULL")

_LIFE_S, _PATIENCE_S = 600.0, 30.0
# Of a process that says nothing else: sixteen requests at once, the loops beside them, and room for bursts.
_MOST, _KEPT = 32, 8
_PUT_OFF = 100
WAKING_S = 5  # until a caller who was told that the database wakes should ask again
# In milliseconds. What waits longer, or works longer, is wrong: nothing of the API may hold a connection for ever.
_LIMITS = {
    "lock_timeout": "30000",
    "statement_timeout": "120000",
    # The locks of a process that vanished in the middle without a word would hold everybody up.
    "idle_in_transaction_session_timeout": "60000",
}

# SQLSTATEs: deadlock, serialization failure, a plan that a migration made obsolete; classes of a server that
# stops or has no room, and of a violated constraint.
_RETRYABLE = ("40P01", "40001", "0A000")
_VIOLATION = "23"
# The last one ends what rested too long within a transaction.
_GOING_DOWN = ("57P", "53", "08", "25P03")
_UNFIT, _DIVISION_BY_ZERO = "22", "22012"
_TIMED_OUT = ("55P03", "57014")  # lock_timeout, statement_timeout


class BadUrl(ValueError):
    """The URL of a database is not one that may be used."""


class DatabaseDown(Exception):
    """PostgreSQL does not answer."""


class DatabaseAsleep(DatabaseDown):
    """PostgreSQL is paused, and wakes because it was called."""


class TryAgain(Exception):
    """PostgreSQL ended the transaction in favour of another (deadlock or serialization): nothing was written."""


class Violated(Exception):
    """An insert or update ran into a constraint of the schema."""

    def __init__(self, constraint: str, cause: str) -> None:
        super().__init__(cause)
        self.constraint = constraint


class Unstorable(Exception):
    """A value that PostgreSQL's types have no place for: NUL or half a surrogate pair in a text, a number too large."""


class QueryFailed(Exception):
    """Any other refusal of PostgreSQL: a mistake of ours, or a limit such as a lock timeout."""

    def __init__(self, sqlstate: str, cause: str) -> None:
        super().__init__(f"{cause} ({sqlstate})")
        self.sqlstate = sqlstate

    @property
    def is_of_time(self) -> bool:
        """Return whether the transaction waited or worked for longer than it may."""
        return self.sqlstate in _TIMED_OUT


class Companion(Protocol):
    """Writes along with every transaction of a thread (services.audit.recording)."""

    def before_commit(self, tx: Tx) -> None: ...

    def committed(self) -> None: ...


along: ContextVar[Companion | None] = ContextVar("along", default=None)


@dataclass(frozen=True, slots=True)
class Pausing:
    """Hold the waits for a database that pauses when nothing is connected; zeros for one that is always there."""

    idle_s: float = (
        0.0  # after which the server closes a connection that rests, also that of a frozen process
    )
    wake_s: float = 0.0  # how long a caller waits for it to wake


class Database:
    """The engine and the two ways to use it. It opens `pool_size` connections at most: who finds none waits."""

    def __init__(self, url: str, *, pool_size: int = _MOST, pausing: Pausing | None = None) -> None:
        self.url = url
        self.engine = pooled_engine(url, pool_size, pausing or Pausing())
        self._holders = _Holders(pool_size)
        self._crowding = Crowding(self.engine) if pausing and pausing.idle_s else None

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        """Open a transaction that commits when the block ends, and rolls back when it raises."""
        companion = along.get()
        with self._holders.held(), connected(self.engine) as connection, connection.begin():
            yield connection
            if companion is not None:
                companion.before_commit(connection)
        if companion is not None:
            companion.committed()

    @contextmanager
    def autocommit(self) -> Iterator[Tx]:
        """Open a connection on which each statement is a transaction: one round trip, where `begin` takes two more.

        At READ COMMITTED statements that only read see the same either way."""
        with self._holders.held(), connected(self.engine) as connection:
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
        return self._holders.uses

    def when_free(self, act: Callable[[], None]) -> None:
        """Call it now; or, where this thread holds a connection, once that is given back.

        With a second connection for what merely accompanies the first, threads could wait for each other."""
        self._holders.when_free(act)

    def rest(self) -> None:
        """Leave the connection to others, where the database has few left: this process may freeze now."""
        if self._crowding:
            self._crowding.give_back()

    def dispose(self) -> None:
        self.engine.dispose()


class _Holders:
    """Let so many threads hold connections, and know what they put off until they hold none.

    A thread that holds one and asks for another gets it beyond the bound: it could wait for itself."""

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
        if thread not in self._counts and not self._room.acquire(timeout=_PATIENCE_S):
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
            acts = self._later.pop(thread, ())
        for act in acts:
            act()


@contextmanager
def connected(engine: Engine) -> Iterator[Connection]:
    try:
        connection = engine.connect()
    except Asleep as e:
        raise DatabaseAsleep(f"{e}: try again in {WAKING_S} seconds") from e
    except (exc.TimeoutError, OSError) as e:  # none becomes free; TLS
        raise DatabaseDown(f"the database does not answer: {_cause(e)}") from e
    with connection:
        yield connection


def pooled_engine(url: str, size: int, pausing: Pausing) -> Engine:
    parsed = driver_url(url)
    options: dict[str, Any] = {
        "pool_size": min(size, _KEPT),
        "max_overflow": -1,  # _Holders bound them
        "pool_timeout": _PATIENCE_S,
        "pool_recycle": _LIFE_S,
        "pool_use_lifo": True,
        "json_serializer": as_json,
    }
    if parsed.get_driver_name() != "pg8000":
        return translating(sa.create_engine(parsed, pool_pre_ping=True, **options))
    from det_controlplane.db.driver import PreparedConnection

    limits = dict(_LIMITS)
    if pausing.idle_s:
        limits["idle_session_timeout"] = str(round(pausing.idle_s * 1000))
    arguments = {**pg8000_arguments(parsed), "startup_params": limits}
    engine = sa.create_engine(
        parsed.set(query={}),
        creator=_creator(PreparedConnection, arguments, pausing.wake_s),
        paramstyle="numeric_dollar",
        **options,
    )
    event.listen(engine, "checkin", _note_rest)
    event.listen(engine, "checkout", _replace_dead)
    return translating(engine)


def plain_engine(url: str, wake_s: float = 0.0) -> Engine:
    """Return an engine for migrations: one connection, no time limits, nothing prepared."""
    parsed = driver_url(url)
    options: dict[str, Any] = {}
    if parsed.get_driver_name() == "pg8000":
        options["creator"] = _creator(pg8000.connect, pg8000_arguments(parsed), wake_s)
        parsed = parsed.set(query={})
    engine = sa.create_engine(parsed, poolclass=sa.NullPool, **options)
    event.listen(engine, "connect", _wait_patiently)
    return translating(engine)


def _creator(
    connect: Callable[..., Any], arguments: Mapping[str, Any], wake_s: float
) -> Callable[[], Any]:
    if wake_s:
        return lambda: connect_patiently(connect, arguments, wake_s)
    return lambda: connect(**arguments)


def _wait_patiently(connection: Any, record: Any) -> None:
    """Lift the limit of a connection attempt: its seconds must not cut a long migration short."""
    if hasattr(connection, "_usock"):
        connection._usock.settimeout(None)


def driver_url(url: str) -> URL:
    """Return the URL with the driver that it means: pg8000, unless it names another one."""
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError) as e:
        raise BadUrl(f"not a database URL: {e}") from e
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+pg8000")
    return parsed


def pg8000_arguments(url: URL) -> dict[str, Any]:
    """Return pg8000's arguments for `postgresql://user:password@host:port/name?unix_sock=…&sslmode=…&sslrootcert=…`."""
    arguments: dict[str, Any] = {
        "user": url.username or "postgres",
        "database": url.database or "postgres",
        "application_name": "determined-serverless",
        "timeout": 15,
    }
    if url.password:
        arguments["password"] = str(url.password)
    if "unix_sock" in url.query:
        # None would ask the server for TLS, which sockets never have, and read all authorities for that.
        return {**arguments, "unix_sock": url.query["unix_sock"], "ssl_context": False}
    host = url.host or "127.0.0.1"
    tls = _tls(host, url.query)
    return {**arguments, "host": host, "port": url.port or 5432, "ssl_context": tls}


def _tls(host: str, query: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Verify certificates always, as by libpq's `verify-full`; only what stays on this machine may be plain.

    `verify-ca` leaves the name out, for an authority of one server alone, as Cloud SQL has them."""
    mode = query.get("sslmode", "prefer" if _is_loopback(host) else "verify-full")
    if mode in ("disable", "allow", "prefer"):
        if not _is_loopback(host):
            raise BadUrl(
                f"sslmode={mode} would send passwords to {host} in plain text: leave it out"
            )
        return None
    context = ssl.create_default_context(cafile=query.get("sslrootcert"))
    if mode == "verify-ca":
        if "sslrootcert" not in query:
            raise BadUrl("sslmode=verify-ca needs sslrootcert, the file of the server's authority")
        context.check_hostname = False
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _note_rest(connection: Any, record: Any) -> None:
    record.info["idle_since"] = time.monotonic()


def _replace_dead(connection: Any, record: Any, proxy: Any) -> None:
    """Make the pool open another connection where this one ended while it rested.

    `pool_pre_ping` would ask each time, which is a round trip for every transaction."""
    since = record.info.get("idle_since")
    is_alive = getattr(connection, "is_alive", None)
    if since is not None and is_alive and not is_alive(time.monotonic() - since):
        raise exc.DisconnectionError("the connection ended while it was idle")


def translating(engine: Engine) -> Engine:
    event.listen(engine, "handle_error", _translate)
    return engine


def _translate(context: ExceptionContext) -> None:
    e = context.original_exception
    if not isinstance(e, Exception):
        return
    dbapi: Any = context.dialect.dbapi
    if context.is_disconnect or isinstance(e, (OSError, dbapi.InterfaceError)):
        context.is_disconnect = True  # nothing else of the pool is used again either
        raise DatabaseDown(f"the database does not answer: {_cause(e)}") from e
    if isinstance(e, dbapi.Error):
        raise translated(e) from e


def translated(e: Exception) -> Exception:
    """Return a refusal of the server in our words."""
    code = _field(e, "C")
    if code in _RETRYABLE:
        return TryAgain(_cause(e))
    if code.startswith(_GOING_DOWN):
        return DatabaseDown(f"the database does not answer: {_cause(e)}")
    if code.startswith(_VIOLATION):
        return Violated(_field(e, "n"), _cause(e))
    if code.startswith(_UNFIT) and code != _DIVISION_BY_ZERO:
        return Unstorable(f"a value cannot be stored: {_cause(e)}{_detail(e)}")
    return QueryFailed(code, _cause(e))


def _field(e: Exception, name: str) -> str:
    return str(e.args[0].get(name, "")) if e.args and isinstance(e.args[0], dict) else ""


def _cause(e: Exception) -> str:
    return _field(e, "M") or str(e).partition("\n")[0] or type(e).__name__


def _detail(e: Exception) -> str:
    detail = _field(e, "D")
    return f" ({detail.rstrip('.')})" if detail else ""


def as_json(value: Any) -> str:
    """Make a parameter for a `cast(:x as jsonb)`."""
    return _JSON.encode(value)


def as_ordered_json(tx: Tx, value: Any) -> str:
    """Make a parameter for a `cast(:x as json)`, which would take texts that PostgreSQL cannot read again."""
    encoded = as_json(value)
    if _DOUBTFUL.search(encoded):
        tx.execute(_READ, {"value": encoded})
    return encoded
