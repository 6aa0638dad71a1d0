"""A database that tests use one after another: to empty one takes a tenth of the time that it takes to copy one."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pg8000.native
import sqlalchemy as sa
from det_controlplane.db import schema
from det_controlplane.db.connections import driver_url, pg8000_arguments
from det_controlplane.db.engine import Database
from sqlalchemy import event

# The connections that tests share; whatever else is connected ends with its test.
_OURS = "tests"
_TABLES = [table.name for table in schema.metadata.sorted_tables]
_DIRTY = " UNION ALL ".join(
    f"SELECT '{name}', pg_relation_size('{name}') WHERE EXISTS (SELECT 1 FROM {name})"
    for name in _TABLES
)
# Also what the planner knows of the tables: some tests look at plans.
_SCHEMA = """
    SELECT (SELECT count(*) FROM pg_attribute), (SELECT max(oid) FROM pg_class), (SELECT max(oid) FROM pg_constraint),
        (SELECT max(oid) FROM pg_type), (SELECT max(oid) FROM pg_proc), (SELECT max(oid) FROM pg_trigger),
        (SELECT sum(reltuples) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace),
        (SELECT count(*) FROM pg_db_role_setting), (SELECT string_agg(version_num, ' ') FROM alembic_version)
"""
_SEQUENCES = """
    SELECT format('setval(%L, %s, %L)', sequencename, coalesce(last_value, start_value), last_value IS NOT NULL)
    FROM pg_sequences
"""
_END_OTHERS = f"""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> '{_OURS}'
"""
_LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
_ENDING_S = 10.0
# What is larger is faster copied anew.
_LARGE_BYTES = 1024**2


class KeptDatabase:
    """Holds the migrated schema, and between two tests nothing else."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        arguments = pg8000_arguments(driver_url(url)) | {"application_name": _OURS}
        self._admin = pg8000.native.Connection(**arguments)
        self._admin.run("SET session_replication_role = replica")
        self._look = self._admin.prepare(_DIRTY)
        self._schema = self._admin.run(_SCHEMA)
        self._first_rows = "".join(self._insert(name) for name, _ in self._look.run())
        self._first_numbers = f"SELECT {', '.join(row[0] for row in self._admin.run(_SEQUENCES))};"
        self._engine: sa.Engine | None = None

    @contextmanager
    def opened(self) -> Iterator[Database]:
        """Lend a Database whose connections, and what they prepared, serve the next tests too."""
        database = Database(self.url)
        if self._engine is None:
            self._engine = database.engine
            event.listen(self._engine, "connect", _mark)
        database.engine = self._engine
        try:
            yield database
        finally:
            # A thread that outlives its test writes nothing into the database of another.
            database.engine = sa.create_engine("postgresql+pg8000://", creator=_gone)

    def emptied(self) -> bool:
        """Empty it; return False where another test should not have it."""
        if self._engine is not None:
            pool: Any = self._engine.pool
            if pool.checkedout():
                return False
        if not self._others_end() or self._has_another_schema():
            return False
        dirty = self._look.run()
        if any(size > _LARGE_BYTES for _, size in dirty):
            return False
        if self._engine is not None and self._admin.run(_LOCKS) != [[0]]:
            self._engine.dispose()
        deletions = "".join(f"DELETE FROM {name};" for name, _ in dirty)
        self._admin.run(f"BEGIN; {deletions} {self._first_rows} {self._first_numbers} COMMIT")
        return True

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        self._admin.close()

    def _has_another_schema(self) -> bool:
        try:
            return bool(self._admin.run(_SCHEMA) != self._schema)
        except pg8000.native.DatabaseError:  # a table is gone
            return True

    def _insert(self, table: str) -> str:
        """Return the statement that brings the rows of a table back."""
        ((rows,),) = self._admin.run(f"SELECT json_agg(t) FROM {table} t")
        written = pg8000.native.literal(json.dumps(rows))
        found = f"json_populate_recordset(NULL::{table}, {written})"
        return f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {found};"

    def _others_end(self) -> bool:
        """End the other connections; return whether they are gone in time."""
        deadline = time.monotonic() + _ENDING_S
        while self._admin.run(_END_OTHERS):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True


def _mark(connection: Any, record: Any) -> None:
    connection.execute_simple(f"SET application_name = '{_OURS}'")


def _gone() -> Any:
    raise ConnectionRefusedError("the test that had this database is over")
