"""Collects the statements that a database is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from det_controlplane.db.engine import Database
from sqlalchemy import event


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    asked: list[str] = []

    def note(connection: Any, cursor: Any, sql: str, *others: Any) -> None:
        asked.append(sql)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
