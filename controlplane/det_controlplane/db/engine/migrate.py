"""Upgrades of the database by Alembic: a step of a deployment, or of the start of a local cluster."""

import logging
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from det_controlplane.db.engine.connections import connected, plain_engine
from det_controlplane.db.engine.errors import QueryFailed, TryAgain
from det_controlplane.db.engine.revisions import BASELINE, FOLDER, HEAD, NUMBERS

__all__ = [
    "BASELINE", "FOLDER", "HEAD", "MigrationError", "alembic_config", "migrate", "require_known", "revision_of",
]  # fmt: skip
_LOCK = 0x6D696772  # any constant of our own: the process that migrates holds it
LOCK_TIMEOUT_S, PAUSE_S, ATTEMPTS = 2, 1.0, 100
_OLD_TRANSACTIONS = sa.text("""
    SELECT pid, application_name, xact_start AS since FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start < now() - interval '2 seconds' AND pid <> pg_backend_pid()
    ORDER BY xact_start LIMIT 3
""")
pause = time.sleep
log = logging.getLogger("det.migrate")
_REFUSED = (
    "the database was made by a draft of 0.1.0, which cannot be upgraded: export what you need with the draft"
    " (`det checkpoint download`, `det experiment describe --metrics --csv`), move its data directory away or give an"
    " empty database, and start again"
)
# Drafts had no Alembic, or revisions without `run_values`, or the numbers from 0100 on.
_TABLES = sa.text("""
    SELECT to_regclass('alembic_version') IS NOT NULL AS versions, to_regclass('run_values') IS NOT NULL AS current,
           to_regclass('schema_migrations') IS NOT NULL AS drafted
""")
_FIRST_OF_DRAFTS, _LAST_OF_DRAFTS = "0100", "0199"


class MigrationError(Exception):
    """The database cannot be brought to the schema of this program."""


def migrate(database_url: str, wake_s: float = 0.0) -> tuple[str, ...]:
    """Migrate the database, from any number of processes. Return the applied revisions.

    An empty database is migrated in one transaction. Otherwise each revision has its own transaction, so that users
    can work between them."""
    engine = plain_engine(database_url, wake_s)
    try:
        with connected(engine) as connection:
            if revision_of(connection) == HEAD:
                return ()
        with connected(engine) as guard, guard.begin():
            # A transaction holds the lock, because a session does not keep its connection behind a pooler. Another
            # process that waits for the lock finds everything done.
            guard.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            guard.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            before = revision_of(guard)
            _require_known(before)
            pending = _revisions_after(before)
            if before is None:
                _upgrade(guard, HEAD)
            else:
                for number in pending:
                    _upgrade_live(engine, number)
            return pending
    except QueryFailed as e:
        raise MigrationError(str(e)) from e
    finally:
        engine.dispose()


def _upgrade_live(engine: Engine, number: str) -> None:
    """Apply a revision to a database that is in use; try again where a lock is not free for LOCK_TIMEOUT_S.

    A statement that waits for its lock makes all later ones of the table wait, so it may not wait for long.
    """
    if _runs_outside_transactions(number):
        with connected(engine.execution_options(isolation_level="AUTOCOMMIT")) as connection:
            _upgrade(connection, number)
        return
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with connected(engine) as connection, connection.begin():
                connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))
                _upgrade(connection, number)
            return
        except (QueryFailed, TryAgain) as e:
            if isinstance(e, QueryFailed) and not e.is_of_lock:
                raise
            if attempt == ATTEMPTS:
                raise MigrationError(_held_up(engine, number)) from e
            log.info("revision %s waits for a lock: attempt %d of %d", number, attempt, ATTEMPTS)
            pause(PAUSE_S)


def _revisions_after(before: str | None) -> tuple[str, ...]:
    from alembic.script import ScriptDirectory

    newest_first = [r.revision for r in ScriptDirectory(str(FOLDER)).walk_revisions()]
    later = newest_first if before is None else newest_first[: newest_first.index(before)]
    return tuple(reversed(later))


def _runs_outside_transactions(number: str) -> bool:
    from alembic.script import ScriptDirectory

    revision = ScriptDirectory(str(FOLDER)).get_revision(number)
    return revision is not None and getattr(revision.module, "outside_transaction", False)


def _held_up(engine: Engine, number: str) -> str:
    """Return which sessions have kept a revision from its locks."""
    with connected(engine) as connection:
        sessions = [
            f"process {row.pid} ({row.application_name or 'unnamed'}) since {row.since:%H:%M:%S}"
            for row in connection.execute(_OLD_TRANSACTIONS)
        ]
    blame = f": {'; '.join(sessions)}" if sessions else ""
    return (
        f"revision {number} got no lock in {ATTEMPTS} attempts of {LOCK_TIMEOUT_S} seconds. End the open"
        f" transactions of the database and start again{blame}"
    )


def require_known(database_url: str) -> None:
    """Raise MigrationError if this program does not know the database's revision. The check only reads."""
    engine = plain_engine(database_url)
    try:
        with connected(engine) as connection:
            _require_known(revision_of(connection))
    finally:
        engine.dispose()


def _require_known(revision: str | None) -> None:
    if revision is not None and revision not in NUMBERS:
        raise MigrationError(
            f"the database is at revision {revision}, this program knows {HEAD}: install a newer one"
        )


def revision_of(connection: Connection) -> str | None:
    """Return the revision of a database, or None if it is empty. Databases of drafts are refused."""
    tables = connection.execute(_TABLES).one()
    revision: str | None = None
    if tables.versions:
        revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    if tables.drafted or (revision is not None and _is_of_draft(revision, tables.current)):
        raise MigrationError(_REFUSED)
    return revision


def _is_of_draft(revision: str, has_current_tables: bool) -> bool:
    return not has_current_tables or _FIRST_OF_DRAFTS <= revision <= _LAST_OF_DRAFTS


def _upgrade(connection: Connection, number: str) -> None:
    from alembic import command

    command.upgrade(alembic_config(connection), number)


def alembic_config(connection: Connection) -> Any:
    """Return Alembic's configuration for one connection; loads Alembic, which requests never need."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config
