"""The connection to PostgreSQL: pooled, without Nagle's delay, one transaction a use case."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pg8000.exceptions import DatabaseError, InterfaceError

from det_controlplane.db import prepared
from det_controlplane.db.pool import Pool
from det_controlplane.db.prepared import Check, PreparedConnection, Question
from det_controlplane.db.sql import Statement

Params = Mapping[str, Any]

_JSON = json.JSONEncoder(separators=(",", ":"), default=str)

# SQLSTATEs: deadlock, serialization failure, a plan that a migration made obsolete; classes of a server that
# stops or has no room, and of a violated constraint.
_RETRYABLE = ("40P01", "40001", "0A000")
_VIOLATION = "23"
_GOING_DOWN = ("57P", "53", "08")
_UNFIT, _DIVISION_BY_ZERO = "22", "22012"


class DatabaseDown(Exception):
    """PostgreSQL does not answer."""


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


class Tx:
    """One transaction, from its first statement that does more than read: until then there is nothing to commit.

    Statements are `text` constants of the `db` package; parameters are plain values or JSON."""

    def __init__(self, connection: PreparedConnection) -> None:
        self.connection = connection
        self._ended = False

    def rows(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        """Named tuples, one a row."""
        self._refuse_ended()
        return self.connection.rows_of(statement, params or {}, begins=not statement.only_reads)

    def row(self, statement: Statement, params: Params | None = None) -> Any | None:
        found = self.rows(statement, params)
        return found[0] if found else None

    def value(self, statement: Statement, params: Params | None = None) -> Any:
        found = self.rows(statement, params)
        return found[0][0] if found else None

    def run(self, statement: Statement, params: Params | None = None) -> int:
        """Execute and return how many rows changed: the guard of guarded updates."""
        self._refuse_ended()
        return self.connection.changed_by(statement, params or {})

    def send(self, statement: Statement, params: Params | None = None) -> None:
        """Like `run` where nobody asks how many rows changed: it travels with the next statement, or with the commit."""
        self._refuse_ended()
        self.connection.send_with_next(statement, params or {})

    def run_last(self, statement: Statement, params: Params | None = None) -> int:
        """Like `run`, and the commit travels with it: nothing may follow in this transaction."""
        self._refuse_ended()
        changed = self.connection.changed_by(statement, params or {}, ends=True)
        self._ended = True
        return changed

    def rows_last(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        """Like `rows`, and the commit travels with it."""
        self._refuse_ended()
        rows = self.connection.rows_of(statement, params or {}, ends=True)
        self._ended = True
        return rows

    def _refuse_ended(self) -> None:
        if self._ended:
            raise RuntimeError(
                "the transaction is committed or rolled back: what follows would be another one"
            )

    def end(self) -> None:
        """Its connection is somebody else's from here on."""
        self._ended = True


class Database:
    def __init__(self, url: str, *, pool_size: int = 8) -> None:
        self.url = url
        options = connect_options(url)
        self._pool = Pool(lambda: prepared.connect(**options), kept=pool_size, most=pool_size + 24)

    def read(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        """One statement that only reads: a single round trip, without a transaction around it."""
        with self._borrowed() as connection:
            return connection.rows_of(statement, params or {}, begins=False)

    def read_after(
        self, first: Question, check: Check, statement: Statement, params: Params | None = None
    ) -> Sequence[Any]:
        """`read`, unless `check` refuses the rows of the first question by raising: one round trip for both."""
        with self._borrowed() as connection:
            return connection.rows_after(first, check, statement, params or {})

    def alone(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        """One statement that changes something and is a whole transaction: a single round trip, too."""
        return self.read(statement, params)

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        """A transaction that commits when the block ends, and rolls back when it raises."""
        with self._borrowed() as connection:
            tx = Tx(connection)
            try:
                yield tx
                connection.commit()
            finally:
                tx.end()

    @contextmanager
    def _borrowed(self) -> Iterator[PreparedConnection]:
        try:
            connection = self._pool.take()
        except (OSError, InterfaceError, DatabaseError) as e:
            raise DatabaseDown(f"the database does not answer: {_cause(e)}") from e
        try:
            yield connection
        except (OSError, InterfaceError) as e:
            # What else is in the pool was connected to the same server that is gone.
            self._pool.clear()
            raise DatabaseDown(f"the database does not answer: {_cause(e)}") from e
        except DatabaseError as e:
            raise translated(e) from e
        finally:
            self._pool.give(connection)

    def dispose(self) -> None:
        self._pool.clear()


def translated(e: DatabaseError) -> Exception:
    """A refusal of the server in our words."""
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
    """A parameter for a `cast(:x as jsonb)`."""
    return _JSON.encode(value)


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
