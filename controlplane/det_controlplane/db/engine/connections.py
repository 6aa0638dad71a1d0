"""Engines of SQLAlchemy over pg8000: URLs, TLS, time limits, and which connections of the pool are used again."""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import pg8000
import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event, exc
from sqlalchemy.engine import URL, make_url

from det_controlplane.db.engine.errors import (
    THE_DATABASE,
    WAKING_S,
    BadUrl,
    DatabaseAsleep,
    DatabaseDown,
    cause_of,
    translating,
)
from det_controlplane.db.engine.patient_connection import Asleep, connect_patiently

_LIFE_S, PATIENCE_S = 600.0, 30.0
_KEPT = 8
_SETTINGS = {
    # Disks that seek are gone: with PostgreSQL's 4.0, short tables are read whole for each row that refers to them.
    "random_page_cost": "1.1",
    # In milliseconds. Longer waits or statements are faults: the API must not hold a connection forever.
    "lock_timeout": "30000",
    "statement_timeout": "120000",
    # The locks of a process that vanished in the middle without a word would hold everybody up.
    "idle_in_transaction_session_timeout": "60000",
}

# A pooler takes no settings at the start of a connection: each transaction has its own.
_LIMITS = tuple(f"SET LOCAL {name} = '{value}'" for name, value in _SETTINGS.items())
# RDS Proxy keeps the server connection for a client that uses SET. There the database's role has the limits.
POOLERS = ("transaction", "rds-proxy")

CROWDED = 0.7  # of all connections that the server takes
_SHARE_IN_USE = """
    SELECT count(*) > $share * cast(current_setting('max_connections') AS integer)
    FROM pg_stat_activity WHERE backend_type = 'client backend'
""".replace("$share", str(CROWDED))


@dataclass(frozen=True, slots=True)
class Pausing:
    """The waits for a database that pauses without connections. Zeros stand for a database that never pauses."""

    # The server closes an idle connection after this time, also one of a frozen process.
    idle_s: float = 0.0
    wake_s: float = 0.0  # how long a caller waits for it to wake


@contextmanager
def connected(engine: Engine) -> Iterator[Connection]:
    try:
        connection = engine.connect()
    except Asleep as e:
        raise DatabaseAsleep(f"{e}: try again in {WAKING_S} seconds") from e
    except (exc.TimeoutError, OSError) as e:  # none becomes free; TLS
        raise DatabaseDown(f"the database does not answer: {cause_of(e)}") from e
    with connection:
        yield connection


def pooled_engine(url: str, size: int, pausing: Pausing, as_json: Callable[[Any], str]) -> Engine:
    engine_url = driver_url(url)
    options: dict[str, Any] = {
        "pool_size": min(size, _KEPT),
        "max_overflow": -1,  # `Database` bounds them
        "pool_timeout": PATIENCE_S,
        "pool_recycle": _LIFE_S,
        "pool_use_lifo": True,
        "json_serializer": as_json,
    }
    if engine_url.get_driver_name() != "pg8000":
        return translating(sa.create_engine(engine_url, pool_pre_ping=True, **options))
    from det_controlplane.db.engine.driver import PooledConnection, PreparedConnection

    pooler = pooler_of(engine_url)
    if pooler is not None:
        limits = () if pooler == "rds-proxy" else _LIMITS
        arguments = {**pg8000_arguments(engine_url), "limits": limits}
        return _prepared_engine(engine_url, PooledConnection, arguments, pausing, options)
    settings = dict(_SETTINGS)
    if pausing.idle_s:
        settings["idle_session_timeout"] = str(round(pausing.idle_s * 1000))
    arguments = {**pg8000_arguments(engine_url), "startup_params": settings}
    return _prepared_engine(engine_url, PreparedConnection, arguments, pausing, options)


def _prepared_engine(
    url: URL,
    connect: Callable[..., Any],
    arguments: Mapping[str, Any],
    pausing: Pausing,
    options: Mapping[str, Any],
) -> Engine:
    engine = sa.create_engine(
        url.set(query={}),
        creator=_creator(connect, arguments, pausing.wake_s),
        paramstyle="numeric_dollar",
        **options,
    )
    event.listen(engine, "checkin", _note_rest)
    event.listen(engine, "checkout", _replace_dead)
    return translating(engine)


def plain_engine(
    url: str,
    wake_s: float = 0.0,
    *,
    name: str = THE_DATABASE,
    arguments_of: Callable[[URL], dict[str, Any]] | None = None,
) -> Engine:
    """Return an engine for migrations: one connection, no time limits, no prepared statements.

    Errors call the database `name`. `arguments_of` replaces pg8000_arguments."""
    engine_url = driver_url(url)
    options: dict[str, Any] = {}
    if engine_url.get_driver_name() == "pg8000":
        connect: Callable[..., Any] = pg8000.connect
        if pooler_of(engine_url) is not None:
            from det_controlplane.db.engine.driver import PooledConnection

            connect, options["paramstyle"] = PooledConnection, "numeric_dollar"
        arguments = (arguments_of or pg8000_arguments)(engine_url)
        options["creator"] = _creator(connect, arguments, wake_s)
        engine_url = engine_url.set(query={})
    engine = sa.create_engine(engine_url, poolclass=sa.NullPool, **options)
    event.listen(engine, "connect", _wait_patiently)
    return translating(engine, name)


def must_answer(url: str, limit_s: float) -> None:
    """Connect once. Raises DatabaseDown if the database does not answer within the limit."""
    engine_url = driver_url(url)
    options: dict[str, Any] = {}
    if engine_url.get_driver_name() == "pg8000":
        arguments = {**pg8000_arguments(engine_url), "timeout": limit_s}
        options["creator"] = lambda: pg8000.connect(**arguments)
        engine_url = engine_url.set(query={})
    engine = translating(sa.create_engine(engine_url, poolclass=sa.NullPool, **options))
    with connected(engine) as connection:
        connection.execute(sa.select(1))


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
        engine_url = make_url(url)
    except (exc.ArgumentError, ValueError) as e:
        raise BadUrl(f"not a database URL: {e}") from e
    if engine_url.drivername in ("postgresql", "postgres"):
        engine_url = engine_url.set(drivername="postgresql+pg8000")
    return engine_url


def pooler_of(url: URL) -> str | None:
    """Return the kind of pooler that a URL names, or None for a server. Raises BadUrl for an unknown kind."""
    pooler = url.query.get("pooler")
    if pooler is not None and pooler not in POOLERS:
        raise BadUrl(f"pooler must be one of {', '.join(POOLERS)}, not {pooler!r}")
    return None if pooler is None else str(pooler)


def require_direct(url: str, purpose: str) -> None:
    """Raise BadUrl if a URL leads to a pooler, because a session is needed."""
    if pooler_of(driver_url(url)) is not None:
        raise BadUrl(
            f"{purpose} needs a session: set DET_DB_URL to the database itself, not to its pooler"
        )


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
    """Always verify certificates, as libpq's `verify-full` does. Only connections on this machine may be
    unencrypted.

    `verify-ca` does not check the name. It is for an authority that serves one server, as at Cloud SQL."""
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


class ScarceConnections:
    """Checks whether a new connection is among the last ones of the database, and closes it after one answer.

    Functions keep their connection while they are frozen, so that the next request needs no new one. If many functions
    share a small database, frozen ones would block others until the server closes idle connections.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_lent = False
        event.listen(engine, "connect", self._look)

    def _look(self, connection: Any, _: Any) -> None:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(_SHARE_IN_USE)
        self._is_lent = bool(cursor.fetchone()[0])
        cursor.close()
        connection.autocommit = False

    def give_back(self) -> None:
        """Close the connection."""
        if self._is_lent:
            self._engine.dispose()
            self._is_lent = False
