"""Collects the statements that a database is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from det_controlplane.db.engine.database import Database
from sqlalchemy import event


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    queries: list[str] = []

    def note(connection: Any, cursor: Any, sql: str, *others: Any) -> None:
        queries.append(sql)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield queries
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


@contextmanager
def trips(database: Database) -> Iterator[list[str]]:
    """Collect every way to the database: statements, and ends of transactions; a first statement begins one."""

    def note(connection: Any) -> None:
        queries.append("commit")

    event.listen(database.engine, "commit", note)
    try:
        with statements(database) as queries:
            yield queries
    finally:
        event.remove(database.engine, "commit", note)
