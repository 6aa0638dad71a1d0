"""The connection to PostgreSQL: pooled, without Nagle's delay, one transaction a use case."""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError

from det_controlplane.db import prepared

Params = Mapping[str, Any]

# SQLSTATEs: deadlock and serialization failure; classes of a server that stops or has no room.
_RETRYABLE = ("40P01", "40001")
_GOING_DOWN = ("57P", "53", "08")


class DatabaseDown(Exception):
    """PostgreSQL does not answer."""


class TryAgain(Exception):
    """PostgreSQL ended the transaction in favour of another (deadlock or serialization): nothing was written."""


class Tx:
    """One transaction. Statements are `text` constants of the `db` package; parameters are plain values or JSON."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, statement: sa.TextClause, params: Params | None = None) -> Sequence[Row[Any]]:
        return self.connection.execute(statement, params or {}).all()

    def row(self, statement: sa.TextClause, params: Params | None = None) -> Row[Any] | None:
        return self.connection.execute(statement, params or {}).first()

    def value(self, statement: sa.TextClause, params: Params | None = None) -> Any:
        return self.connection.execute(statement, params or {}).scalar()

    def run(self, statement: sa.TextClause, params: Params | None = None) -> int:
        """Execute and return how many rows changed: the guard of guarded updates."""
        return self.connection.execute(statement, params or {}).rowcount


class Database:
    def __init__(self, url: str, *, pool_size: int = 8) -> None:
        self.url = url
        options = connect_options(url)
        self._engine = sa.create_engine(
            "postgresql+pg8000://",
            creator=lambda: _connect(options),
            pool_size=pool_size,
            max_overflow=24,
            pool_pre_ping=False,
            pool_recycle=600,
            isolation_level="READ COMMITTED",
        )

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        """A transaction that commits when the block ends, and rolls back when it raises."""
        try:
            with self._engine.begin() as connection:
                yield Tx(connection)
        except (OperationalError, InterfaceError) as e:
            raise DatabaseDown(f"the database does not answer: {_cause(e)}") from e
        except DBAPIError as e:
            if _code(e) in _RETRYABLE:
                raise TryAgain(_cause(e)) from e
            if _code(e).startswith(_GOING_DOWN):
                raise DatabaseDown(f"the database does not answer: {_cause(e)}") from e
            raise

    def dispose(self) -> None:
        self._engine.dispose()


def violated_constraint(e: IntegrityError) -> str:
    """The name of the constraint that an insert or update ran into."""
    return _field(e, "n")


def _code(e: DBAPIError) -> str:
    return _field(e, "C")


def _field(e: DBAPIError, name: str) -> str:
    args = getattr(e.orig, "args", ())
    return str(args[0].get(name, "")) if args and isinstance(args[0], dict) else ""


def as_json(value: Any) -> str:
    """A parameter for a `cast(:x as jsonb)`."""
    return json.dumps(value, separators=(",", ":"), default=str)


def connect_options(url: str) -> dict[str, Any]:
    """pg8000's arguments from a `postgresql://user:password@host:port/name?unix_sock=…&sslmode=require` URL."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    options: dict[str, Any] = {
        "user": unquote(parts.username or "postgres"),
        "database": parts.path.lstrip("/") or "postgres",
        "application_name": "determined-serverless",
        "timeout": 15,
    }
    if parts.password:
        options["password"] = unquote(parts.password)
    if "unix_sock" in query:
        options["unix_sock"] = query["unix_sock"][0]
    else:
        options["host"] = parts.hostname or "127.0.0.1"
        options["port"] = parts.port or 5432
    if query.get("sslmode", ["disable"])[0] != "disable":
        options["ssl_context"] = True
    return options


def _connect(options: dict[str, Any]) -> Any:
    connection = prepared.connect(**options)
    raw = connection._usock
    if raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.settimeout(None)
    return connection


def _cause(e: DBAPIError) -> str:
    return str(e.orig).splitlines()[0] if e.orig else str(e)
