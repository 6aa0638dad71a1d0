"""Upgrades of the database by Alembic: a step of a deployment, or of the start of a local cluster."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from det_controlplane.db.connections import connected, plain_engine
from det_controlplane.db.errors import QueryFailed
from det_controlplane.db.revisions import BASELINE, FOLDER, HEAD, NUMBERS

__all__ = [
    "BASELINE", "FOLDER", "HEAD", "MigrationError", "alembic_config", "migrate", "require_known", "revision_of",
]  # fmt: skip
_LOCK = 0x6D696772  # any constant of our own: the process that migrates holds it
_VERSIONS_OF_DRAFTS = "schema_migrations"
_REFUSED = (
    "the database was made by a draft of 0.1.0, which cannot be upgraded: move its data directory away,"
    " or give an empty database, and start again"
)


class MigrationError(Exception):
    """The database cannot be brought to the schema of this program."""


def migrate(database_url: str, wake_s: float = 0.0) -> tuple[str, ...]:
    """Migrate the database, from any number of processes; return the revisions that were applied."""
    engine = plain_engine(database_url, wake_s)
    try:
        with connected(engine) as connection:
            if revision_of(connection) == HEAD:
                return ()
        with connected(engine) as connection, connection.begin():
            # Until the commit: another process finds everything done.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            return _upgraded(connection)
    except QueryFailed as e:
        raise MigrationError(str(e)) from e
    finally:
        engine.dispose()


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
    """Return the revision of a database; None of an empty one. That of a draft is refused."""
    tables = sa.text(
        "SELECT to_regclass(:new) IS NOT NULL AS new, to_regclass(:old) IS NOT NULL AS old"
    )
    found = connection.execute(tables, {"new": "alembic_version", "old": _VERSIONS_OF_DRAFTS}).one()
    if found.new:
        revision: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        if revision is None or revision >= BASELINE:
            return revision
    if found.new or found.old:
        raise MigrationError(_REFUSED)
    return None


def _upgraded(connection: Connection) -> tuple[str, ...]:
    from alembic import command
    from alembic.script import ScriptDirectory

    before = revision_of(connection)
    _require_known(before)
    config = alembic_config(connection)
    revisions = [r.revision for r in ScriptDirectory.from_config(config).walk_revisions()]
    command.upgrade(config, "head")
    later = revisions if before is None else revisions[: revisions.index(before)]
    return tuple(reversed(later))


def alembic_config(connection: Connection) -> Any:
    """Return Alembic's configuration for one connection; loads Alembic, which requests never need."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config
