"""A database that tests use one after another: to empty one takes a tenth of the time that it takes to copy one."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pg8000.native
import sqlalchemy as sa
from det_controlplane.db import schema
from det_controlplane.db.engine.connections import driver_url, pg8000_arguments
from det_controlplane.db.engine.database import Database
from sqlalchemy import event

# Connections that tests share; others end with their test.
_OURS = "tests"
_TABLES = [table.name for table in schema.metadata.sorted_tables]
_DIRTY = " UNION ALL ".join(
    f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {name})" for name in _TABLES
)
# With the rows that were deleted.
_SIZE = "SELECT " + " + ".join(f"pg_relation_size('{name}')" for name in _TABLES)
# Including the planner's statistics, because some tests check plans.
_SCHEMA = "SELECT " + ", ".join(
    f"(SELECT sum(hashtextextended({of}::text, 0)) FROM {catalogue})"
    for catalogue, of in {
        "pg_attribute WHERE attrelid >= 16384": "(attrelid, attname, atttypid, attnotnull, atthasdef, attisdropped)",
        "pg_attrdef": "(adrelid, adbin)",
        "pg_class WHERE relnamespace = 'public'::regnamespace": "(oid, reltuples)",
        "pg_constraint WHERE oid >= 16384": "(oid, conname)",
        "pg_enum": "(enumtypid, enumlabel)",
        "pg_index WHERE indexrelid >= 16384": "(indexrelid, indisvalid)",
        "pg_proc WHERE oid >= 16384": "(oid, prosrc)",
        "pg_trigger": "(oid, tgenabled)",
        "pg_db_role_setting": "(setdatabase, setconfig)",
        "alembic_version": "version_num",
    }.items()
)
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
# Copying a larger database is faster than emptying it.
_LARGE_BYTES = 2 * 1024**2


class KeptDatabase:
    """A database that contains only the migrated schema between two tests."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        arguments = pg8000_arguments(driver_url(url)) | {"application_name": _OURS}
        self._admin = pg8000.native.Connection(**arguments)
        self._admin.run("SET session_replication_role = replica")
        self._look, self._size = self._admin.prepare(_DIRTY), self._admin.prepare(_SIZE)
        self._schema = self._admin.run(_SCHEMA)
        self._first_rows = "".join(self._insert(name) for (name,) in self._look.run())
        self._first_numbers = f"SELECT {', '.join(row[0] for row in self._admin.run(_SEQUENCES))};"
        self._engine: sa.Engine | None = None

    @contextmanager
    def opened(self) -> Iterator[Database]:
        """Yield a Database with connections and prepared statements that later tests reuse.

        A test must close connections that it opens by URL, because they could reach the next test."""
        database = Database(self.url)
        if self._engine is None:
            self._engine = database.engine
            event.listen(self._engine, "connect", _mark)
        database.engine = self._engine
        try:
            yield database
        finally:
            # A thread that outlives its test cannot write into the database of another test.
            database.engine = sa.create_engine("postgresql+pg8000://", creator=_gone)

    def is_as_made(self) -> bool:
        """Return whether another test may have it, if it is empty."""
        try:
            ((size,),) = self._size.run()
            return bool(self._admin.run(_SCHEMA) == self._schema and size < _LARGE_BYTES)
        except pg8000.native.DatabaseError:  # a table is gone
            return False

    def emptied(self) -> bool:
        """Empty it; return False where that cannot be."""
        try:
            return self._is_left() and self._others_end() and self._delete()
        except (pg8000.native.DatabaseError, pg8000.native.InterfaceError, OSError):
            return False

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        self._admin.close()

    def _is_left(self) -> bool:
        """Return whether no thread has one of the shared connections."""
        if self._engine is None:
            return True
        pool: Any = self._engine.pool
        if not pool.checkedout() and self._admin.run(_LOCKS) != [[0]]:
            self._engine.dispose()
        return not pool.checkedout()

    def _delete(self) -> bool:
        deletions = "".join(f"DELETE FROM {name};" for (name,) in self._look.run())
        self._admin.run(f"BEGIN; {deletions} {self._first_rows} {self._first_numbers} COMMIT")
        return True

    def _insert(self, table: str) -> str:
        """Return the statement that brings the rows of a table back."""
        ((rows,),) = self._admin.run(f"SELECT json_agg(t) FROM {table} t")
        literal = pg8000.native.literal(json.dumps(rows))
        recordset = f"json_populate_recordset(NULL::{table}, {literal})"
        return f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {recordset};"

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
