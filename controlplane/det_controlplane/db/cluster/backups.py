"""Read a database for a backup: one snapshot, and a lock that blocks deletions of stored files."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, select, text

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.db.engine.connections import (
    connected,
    driver_url,
    pg8000_arguments,
    plain_engine,
    require_direct,
)
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import QueryFailed
from det_controlplane.db.engine.migrate import revision_of
from det_controlplane.db.schema import checkpoints, cluster, contexts, experiments, storages

SCHEMA = "public"
DELETIONS_LOCK = (
    0x64656C74  # an arbitrary constant: a backup holds it exclusively, deletions share it
)
_WAIT_MS = 30_000
_HELD = text("SELECT NOT pg_try_advisory_xact_lock_shared(:lock)")
_TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = :schema ORDER BY tablename")
_BYTES = text(
    "SELECT coalesce(sum(pg_table_size(format('%I.%I', schemaname, tablename)::regclass)), 0)"
    " FROM pg_tables WHERE schemaname = :schema"
)
# Compare as text instead of jsonb: a user's configuration may contain escapes such as \u0000, which jsonb refuses.
_CONFIGURED = text("SELECT DISTINCT cast(config->'checkpoint_storage' AS text) FROM experiments")
# Checkpoints that tasks are deleting: their rows change only after their files are gone.
_DOOMED = text("""
    SELECT DISTINCT jsonb_array_elements_text(f->'content'->'checkpoints')
    FROM tasks t, jsonb_array_elements(t.config->'_files') f WHERE t.kind = 'CHECKPOINT_GC' AND t.ended_at IS NULL
""")


class BackupRunning(Exception):
    """Another backup of the same database is being written."""


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A checkpoint with the paths of its files, and the configuration of the storage that has them."""

    uuid: str
    state: CheckpointState
    paths: tuple[str, ...]
    storage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Contents:
    """The size of a snapshot of a database, and the stored files that it refers to."""

    cluster_id: str
    revision: str
    taken_at: datetime
    server_version: int  # the major version of PostgreSQL
    table_bytes: int
    rows: Mapping[str, int]  # by table
    checkpoints: tuple[CheckpointFiles, ...]
    storages: tuple[
        Mapping[str, Any], ...
    ]  # every checkpoint_storage that an experiment or checkpoint names
    doomed: frozenset[str]  # checkpoints that a queued or running task deletes
    objects: frozenset[str]  # keys of uploaded model definitions


def deletions_are_held(tx: Tx) -> bool:
    """Return True while a backup copies files. If it returns False, backups wait until this transaction has ended."""
    return bool(tx.execute(_HELD, {"lock": DELETIONS_LOCK}).scalar_one())


@dataclass(frozen=True, slots=True)
class HeldDeletions:
    """The session that blocks deletions, and an engine for other connections."""

    engine: Engine
    _session: Connection

    def check(self) -> None:
        """Raise DatabaseDown if the session broke, because files may have been deleted since then."""
        self._session.execute(select(1))


@contextmanager
def holding_deletions(url: str) -> Iterator[HeldDeletions]:
    """Block deletions of stored files until the `with` block, this process or the server ends.

    Raises BackupRunning if another backup holds the lock."""
    require_direct(url, "a backup")
    engine = plain_engine(url)
    try:
        with connected(engine) as session:
            session.execution_options(isolation_level="AUTOCOMMIT")
            _lock(session)
            yield HeldDeletions(engine, session)
    finally:
        engine.dispose()


def _lock(connection: Connection) -> None:
    """Take the lock; wait for transactions that are queueing deletions, which end within a moment."""
    connection.execute(text(f"SET lock_timeout = {_WAIT_MS}"))
    try:
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": DELETIONS_LOCK})
    except QueryFailed as e:
        if not e.is_of_time:
            raise
        raise BackupRunning("another backup of this cluster is being written") from e


@contextmanager
def snapshot(engine: Engine) -> Iterator[tuple[str, Contents]]:
    """Open a snapshot; yield its id for `pg_dump --snapshot`, which is valid inside the block, and its contents."""
    with connected(engine) as connection, connection.begin():
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        snapshot_id = str(connection.execute(text("SELECT pg_export_snapshot()")).scalar_one())
        yield snapshot_id, _contents(connection)


def count_rows(connection: Connection) -> dict[str, int]:
    """Return the number of rows of every table."""
    tables = connection.execute(_TABLES, {"schema": SCHEMA}).scalars().all()
    counts = {
        name: select(sa.func.count()).select_from(sa.table(name, schema=SCHEMA)) for name in tables
    }
    return {name: int(connection.execute(count).scalar_one()) for name, count in counts.items()}


def libpq_variables(url: str) -> dict[str, str]:
    """Return the environment variables by which PostgreSQL's own programs reach a database."""
    arguments = pg8000_arguments(driver_url(url))
    variables = {"PGUSER": arguments["user"], "PGDATABASE": arguments["database"]}
    if "password" in arguments:
        variables["PGPASSWORD"] = arguments["password"]
    if "unix_sock" in arguments:
        socket = PurePosixPath(arguments["unix_sock"])
        return {**variables, "PGHOST": str(socket.parent), "PGPORT": socket.suffix[1:]}
    variables |= {"PGHOST": arguments["host"], "PGPORT": str(arguments["port"])}
    query = {k: str(v) for k, v in driver_url(url).query.items()}
    if arguments["ssl_context"] is None:
        return {**variables, "PGSSLMODE": "prefer"}
    return {
        **variables,
        "PGSSLMODE": query.get("sslmode", "verify-full"),
        "PGSSLROOTCERT": query.get("sslrootcert", "system"),
    }


def _contents(tx: Connection) -> Contents:
    files = tuple(_checkpoint_files(tx))
    configs = [json.loads(row) for row in tx.execute(_CONFIGURED).scalars() if row]
    all_storages = [c.storage for c in files] + [s for s in configs if isinstance(s, dict)]
    query = select(contexts.c.object_key).where(
        contexts.c.uploaded & contexts.c.object_key.is_not(None)
    )
    version = int(str(tx.execute(text("SHOW server_version_num")).scalar_one()))
    return Contents(
        cluster_id=str(tx.execute(select(cluster.c.cluster_id)).scalar_one()),
        revision=revision_of(tx) or "",
        taken_at=tx.execute(text("SELECT now()")).scalar_one(),
        server_version=version // 10_000,
        table_bytes=int(tx.execute(_BYTES, {"schema": SCHEMA}).scalar_one()),
        rows=count_rows(tx),
        checkpoints=files,
        storages=tuple(all_storages),
        doomed=frozenset(tx.execute(_DOOMED).scalars()),
        objects=frozenset(tx.execute(query).scalars()),
    )


def _checkpoint_files(tx: Connection) -> Iterator[CheckpointFiles]:
    c = checkpoints.c
    of_experiment = experiments.c.config["checkpoint_storage"]
    rows = tx.execute(
        select(c.uuid, c.state, c.resources, storages.c.config, of_experiment)
        .select_from(checkpoints)
        .outerjoin(storages, storages.c.id == c.storage_id)
        .outerjoin(experiments, experiments.c.id == c.experiment_id)
        .where(c.state != CheckpointState.DELETED)
    )
    for uuid, state, resources, own, config in rows:
        paths = tuple(path for path in resources if not path.endswith("/"))
        yield CheckpointFiles(str(uuid), state, paths, own or config or {})
