"""Translate errors of PostgreSQL and its driver into the errors that services handle."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pg8000
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext

THE_DATABASE = "the database"
WAKING_S = 5  # pause before a caller should retry while the database wakes

# SQLSTATEs: deadlock, serialization failure, a plan that a migration made obsolete; classes of a server that
# stops or has no room, and of a violated constraint.
_RETRYABLE = ("40P01", "40001", "0A000")
_VIOLATION = "23"
# The last code ends a transaction that was idle for too long.
_GOING_DOWN = ("57P", "53", "08", "25P03")
# Errors of values and limits of the server, such as index rows with names of kilobytes.
_UNFIT = ("22", "54")
_DIVISION_BY_ZERO = "22012"
_DISK_FULL = "53100"
_LOCK_TIMEOUT = "55P03"
_TIMED_OUT = (_LOCK_TIMEOUT, "57014")  # the last one is statement_timeout


class BadUrl(ValueError):
    """The URL of a database is not one that may be used."""


class DatabaseDown(Exception):
    """PostgreSQL does not answer."""


class DatabaseFull(DatabaseDown):
    """The disk of PostgreSQL is full: it may answer queries but stores no rows."""


class DatabaseAsleep(DatabaseDown):
    """PostgreSQL is paused, and wakes because it was called."""


class TryAgain(Exception):
    """PostgreSQL ended the transaction because of a deadlock or a serialization failure. Its changes were rolled
    back."""


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

    @property
    def is_of_lock(self) -> bool:
        """Return whether another transaction held a lock for longer than `lock_timeout`."""
        return self.sqlstate == _LOCK_TIMEOUT


def translating(engine: Engine, name: str = THE_DATABASE) -> Engine:
    """Make an engine raise our errors. Messages call its database `name`."""
    event.listen(engine, "handle_error", partial(_translate, name))
    return engine


def _translate(name: str, context: ExceptionContext) -> None:
    e = context.original_exception
    if not isinstance(e, Exception):
        return
    dbapi: Any = context.dialect.dbapi
    if context.is_disconnect or isinstance(e, (OSError, dbapi.InterfaceError)):
        context.is_disconnect = True  # the other connections of the pool are dropped as well
        raise DatabaseDown(f"{name} does not answer: {cause_of(e)}") from e
    if isinstance(e, dbapi.Error):
        raise _translate_refusal(e, name) from e


@contextmanager
def driver_errors(name: str = THE_DATABASE) -> Iterator[None]:
    """Translate the errors of a driver that is used directly, without SQLAlchemy."""
    try:
        yield
    except pg8000.InterfaceError as e:
        raise DatabaseDown(f"{name} does not answer: {cause_of(e)}") from e
    except pg8000.Error as e:
        raise _translate_refusal(e, name) from e


def _translate_refusal(e: Exception, name: str) -> Exception:
    """Return a refusal of the server in our words."""
    code = _field(e, "C")
    if code in _RETRYABLE:
        return TryAgain(cause_of(e))
    if code == _DISK_FULL:
        return DatabaseFull(f"the disk of {name} is full: make room on it ({cause_of(e)})")
    if code.startswith(_GOING_DOWN):
        return DatabaseDown(f"{name} does not answer: {cause_of(e)}")
    if code.startswith(_VIOLATION):
        return Violated(_field(e, "n"), cause_of(e))
    if code.startswith(_UNFIT) and code != _DIVISION_BY_ZERO:
        return Unstorable(f"a value cannot be stored: {cause_of(e)}{_detail(e)}")
    return QueryFailed(code, cause_of(e))


def _field(e: Exception, name: str) -> str:
    return str(e.args[0].get(name, "")) if e.args and isinstance(e.args[0], dict) else ""


def cause_of(e: Exception) -> str:
    if isinstance(e, pg8000.InterfaceError) and isinstance(e.__cause__, OSError):
        # The driver's own sentence has its timeout and addresses, and omits the reason.
        return e.__cause__.strerror or str(e.__cause__) or str(e)
    return _field(e, "M") or str(e).partition("\n")[0] or type(e).__name__


def _detail(e: Exception) -> str:
    detail = _field(e, "D")
    return f" ({detail.rstrip('.')})" if detail else ""
