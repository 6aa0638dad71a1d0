"""Write the rows of an imported cluster, and keep how far the import is."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, RowMapping, func, insert, select, text, update

from det_controlplane.core.importing.ids import KINDS, Ids
from det_controlplane.db import schema
from det_controlplane.db.engine.connections import connected
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.engine.errors import DatabaseDown, DatabaseFull, driver_errors
from det_controlplane.db.engine.migrate import MigrationError, require_known
from det_controlplane.db.importing.connecting import TARGET, target_engine
from det_controlplane.db.importing.piping import Pipe
from det_controlplane.db.schema import imports

_IS_CLUSTER = text("SELECT to_regclass('public.imports') IS NOT NULL")
LOCK = 0x696D706F  # an arbitrary constant: one import at a time holds it
_METRICS = "id, trial_id, run_id, metric_group, total_batches, metrics, batch_metrics, archived, reported_at"
_LOGS = "task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source, stdtype, log"
_BUILT_IN = {"users": 2, "workspaces": 1, "projects": 1}


class ImportRunning(Exception):
    """Another import into this cluster is running."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an import."""

    id: int
    source: str  # the cluster id of the imported cluster
    began_at: datetime
    offsets: dict[str, int]
    merged: dict[str, dict[int, int]]
    name: str | None
    last_ids: dict[str, int]
    remarks: list[dict[str, Any]]
    logs: str
    people: bool
    experiment: int
    ended: bool

    @property
    def ids(self) -> Ids:
        return Ids(self.offsets, self.merged)

    @property
    def title(self) -> str:
        """Return the name in references such as old:NAME/17."""
        return self.name or str(self.id)


class Target:
    """The database of this cluster, without limits of time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        """Open a transaction that no other import shares. Raises ImportRunning."""
        with connected(self._engine) as connection, connection.begin():
            _lock(connection)
            yield connection

    @contextmanager
    def read(self) -> Iterator[Tx]:
        with connected(self._engine) as connection, connection.begin():
            yield connection


@contextmanager
def opened(url: str) -> Iterator[Target]:
    """Open the database of a cluster. Raises MigrationError if this program does not know its schema."""
    engine = target_engine(url)
    try:
        with connected(engine) as connection:
            if not connection.execute(_IS_CLUSTER).scalar_one():
                raise MigrationError(
                    "the target is not the database of a cluster, or has an old schema: start the cluster once with"
                    " this version, and check the database's name in the URL"
                )
        require_known(url)
        yield Target(engine)
    finally:
        engine.dispose()


def _lock(tx: Tx) -> None:
    if not tx.execute(select(func.pg_try_advisory_xact_lock(LOCK))).scalar_one():
        raise ImportRunning("another import into this cluster is running: wait until it has ended")


def find(tx: Tx, source: str) -> Progress | None:
    row = tx.execute(select(imports).where(imports.c.source == source)).mappings().first()
    return None if row is None else _progress(row)


def every(tx: Tx) -> list[Progress]:
    """Return all imports, the oldest first."""
    return [_progress(row) for row in tx.execute(select(imports).order_by(imports.c.id)).mappings()]


def _progress(row: RowMapping) -> Progress:
    merged = {
        kind: {int(old): new for old, new in ids.items()} for kind, ids in row["merged"].items()
    }
    return Progress(
        row["id"], row["source"], row["began_at"], row["offsets"], merged, row["name"], row["last_ids"], row["remarks"], row["logs"], row["people"],
        row["experiment"], row["ended_at"] is not None,
    )  # fmt: skip


def begin(tx: Tx, source: str, ids: Ids, last_ids: Mapping[str, int], logs: str, name: str) -> None:
    tx.execute(
        insert(imports).values(
            source=source, offsets=dict(ids.offsets), merged=dict(ids.merged), logs=logs,
            last_ids=dict(last_ids), name=name or None,
        )
    )  # fmt: skip


def require_progress(tx: Tx, progress: Progress, experiment: int) -> None:
    """Raise ImportRunning if another process has continued the import since its progress was read."""
    statement = select(imports.c.experiment).where(imports.c.id == progress.id)
    if tx.execute(statement).scalar_one() != experiment:
        raise ImportRunning("another process has continued this import: wait until it has ended")


def advance(tx: Tx, id: int, **values: Any) -> None:
    tx.execute(update(imports).where(imports.c.id == id).values(**values))


def end(tx: Tx, id: int, **values: Any) -> None:
    tx.execute(update(imports).where(imports.c.id == id).values(ended_at=func.now(), **values))


def largest_ids(tx: Tx) -> dict[str, int]:
    """Return the largest id of each kind in this cluster. Built-in rows do not count."""
    largest = {}
    for kind in KINDS:
        table = schema.metadata.tables[kind]
        value = tx.execute(select(func.coalesce(func.max(table.c.id), 0))).scalar_one()
        largest[kind] = 0 if value <= _BUILT_IN.get(kind, 0) else int(value)
    return largest


def reserve_ids(tx: Tx, kind: str, upto: int) -> None:
    """Let new rows of the cluster get larger ids, so that they never meet imported ids."""
    statement = text(
        "SELECT setval(pg_get_serial_sequence(:table, 'id'), greatest(:upto, 1)) WHERE :upto >"
        " (SELECT coalesce(pg_sequence_last_value(cast(pg_get_serial_sequence(:table, 'id') AS regclass)), 0))"
    )
    tx.execute(statement, {"table": kind, "upto": upto})


def add(
    tx: Tx, table: str, rows: Sequence[Mapping[str, Any]], *, skip_existing: bool = False
) -> None:
    """Insert rows that have the same columns."""
    if not rows:
        return
    columns = ", ".join(rows[0])
    statement = text(
        f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE"
        f" SELECT {columns} FROM json_populate_recordset(cast(NULL AS {table}), cast(:rows AS json))"
        + (" ON CONFLICT DO NOTHING" if skip_existing else "")
    )
    tx.execute(statement, {"rows": as_json([dict(row) for row in rows])})


def add_context(tx: Tx, row: Mapping[str, Any]) -> None:
    """Insert a model definition, whose content is binary."""
    tx.execute(insert(schema.contexts).values(**row))


def copy_metrics(tx: Tx, pipe: Pipe) -> None:
    _copy(tx, f"COPY metrics ({_METRICS}) FROM STDIN", pipe)


def copy_repeated_metrics(tx: Tx, pipe: Pipe) -> None:
    """Store metrics of which some steps were reported twice. The report of the last run counts; others are archived."""
    tx.execute(text("CREATE TEMPORARY TABLE import_metrics (LIKE metrics) ON COMMIT DROP"))
    _copy(tx, f"COPY import_metrics ({_METRICS}) FROM STDIN", pipe)
    tx.execute(
        text(
            """UPDATE import_metrics m SET archived = true FROM import_metrics later
               WHERE NOT m.archived AND NOT later.archived AND later.trial_id = m.trial_id
                 AND later.metric_group = m.metric_group AND later.total_batches = m.total_batches
                 AND (later.run_id, later.id) > (m.run_id, m.id)"""
        )
    )
    tx.execute(
        text(
            f"INSERT INTO metrics ({_METRICS}) OVERRIDING SYSTEM VALUE"
            f" SELECT {_METRICS} FROM import_metrics ORDER BY id"
        )
    )


def copy_logs(tx: Tx, pipe: Pipe) -> None:
    _copy(tx, f"COPY task_logs ({_LOGS}) FROM STDIN", pipe)


def _copy(tx: Tx, statement: str, pipe: Pipe) -> None:
    driver: Any = tx.connection.driver_connection
    try:
        with driver_errors(TARGET):
            driver.cursor().execute(statement, stream=pipe)
    except Exception as e:
        is_lost = isinstance(e, DatabaseDown) and not isinstance(e, DatabaseFull)
        if pipe.has_failed or is_lost:
            # The server still expects rows, or does not answer: a rollback would fail, and hide the cause.
            tx.invalidate()
        raise


def names_in_use(tx: Tx, table: str, column: str) -> dict[str, int]:
    """Return the ids of rows by a name, for tables in which it is unique."""
    columns = schema.metadata.tables[table].c
    return {row[0]: row[1] for row in tx.execute(select(columns[column], columns.id))}


def storage_of(tx: Tx, config: Mapping[str, Any]) -> int:
    """Return the storage with a configuration that no particular user has; create it if there is none."""
    c = schema.storages.c
    same = (c.config == dict(config)) & (c.user_id == 0) & (c.fingerprint == "")
    found: int | None = tx.execute(select(c.id).where(same)).scalar()
    if found is not None:
        return found
    statement = insert(schema.storages).values(config=dict(config), user_id=0)
    return int(tx.execute(statement.returning(c.id)).scalar_one())


def template_names(tx: Tx) -> list[str]:
    return list(tx.execute(select(schema.templates.c.name)).scalars())


def checkpoints_present(tx: Tx, uuids: Sequence[str]) -> set[str]:
    statement = text(
        "SELECT cast(uuid AS text) FROM checkpoints WHERE uuid = ANY(cast(:uuids AS uuid[]))"
    )
    return set(tx.execute(statement, {"uuids": list(uuids)}).scalars())


def experiments_present(tx: Tx, ids: Sequence[int]) -> set[int]:
    statement = text("SELECT id FROM experiments WHERE id = ANY(cast(:ids AS integer[]))")
    return set(tx.execute(statement, {"ids": list(ids)}).scalars())


def workspace_of_projects(tx: Tx) -> dict[int, tuple[int, str]]:
    """Return the workspace of each project: its id and its name."""
    statement = text(
        "SELECT p.id, w.id, w.name FROM projects p JOIN workspaces w ON w.id = p.workspace_id"
    )
    return {row[0]: (row[1], row[2]) for row in tx.execute(statement)}
