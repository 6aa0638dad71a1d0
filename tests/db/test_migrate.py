"""The schema that migrations leave is the one that `db/schema` describes, and only one process brings it about."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from det_controlplane.db import schema
from det_controlplane.db.engine import migrate as migrations
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.migrate import (
    BASELINE,
    FOLDER,
    HEAD,
    MigrationError,
    alembic_config,
    migrate,
)
from sqlalchemy import Engine, text

REVISIONS = tuple(sorted(path.name[:4] for path in (FOLDER / "versions").glob("[0-9]*.py")))
# Parts of the catalog that Alembic does not compare.
CATALOG = {
    "columns": """
        SELECT table_name || '.' || column_name, concat_ws(' ', data_type, udt_name, is_nullable, column_default,
            identity_generation, generation_expression)
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "constraints": """
        SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
    "options": "SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL AND relkind = 'r'",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "enums": """
        SELECT t.typname, string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder)
        FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid GROUP BY t.typname""",
}


@pytest.fixture
def empty(empty_database_url: str) -> Any:
    engine = plain_engine(empty_database_url)
    yield engine
    engine.dispose()


LATER = f"{int(HEAD) + 1:04}"


def later_program(folder: Path, monkeypatch: pytest.MonkeyPatch, upgrade: str) -> None:
    """Make this program one that has another revision, which runs one statement."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{LATER}_later.py").write_text(f"""
from alembic import op

revision = "{LATER}"
down_revision = "{HEAD}"


def upgrade() -> None:
    op.execute({upgrade!r})
""")
    monkeypatch.setattr(migrations, "FOLDER", folder)
    monkeypatch.setattr(migrations, "HEAD", LATER)


def catalog(engine: Engine) -> dict[str, dict[str, str]]:
    with engine.connect() as connection:
        objects = {
            kind: {str(name): str(definition) for name, definition in connection.execute(text(sql))}
            for kind, sql in CATALOG.items()
        }
    return {
        kind: {
            name: definition for name, definition in rows.items() if "alembic_version" not in name
        }
        for kind, rows in objects.items()
    }


def test_migrations_produce_the_described_schema(database_url: str) -> None:
    engine = plain_engine(database_url)
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        compared = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(compared, schema.metadata) == []
    engine.dispose()


def test_migrations_produce_the_described_constraints_enums_and_indexes(
    empty: Engine, database_url: str
) -> None:
    schema.metadata.create_all(empty)
    migrated = plain_engine(database_url)
    empty_catalog = catalog(empty)
    assert catalog(migrated) == empty_catalog
    assert len(empty_catalog["constraints"]) > 100
    migrated.dispose()


def test_upgrading_twice_is_harmless(empty_database_url: str) -> None:
    assert migrate(empty_database_url) == REVISIONS
    assert migrate(empty_database_url) == ()


def test_concurrent_processes_apply_each_revision_once(empty_database_url: str) -> None:
    applied: list[str] = []
    threads = [
        threading.Thread(target=lambda: applied.extend(migrate(empty_database_url)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tuple(applied) == REVISIONS


def test_only_later_revision_is_applied_and_rows_remain(
    empty: Engine, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty_database_url)
    with empty.begin() as connection:
        connection.execute(text("UPDATE users SET display_name = 'kept' WHERE id = 1"))
    later_program(
        tmp_path / "migrations",
        monkeypatch,
        "ALTER TABLE users ADD COLUMN later text NOT NULL DEFAULT 'added'",
    )
    assert migrate(empty_database_url) == (LATER,)
    with empty.connect() as connection:
        user = connection.execute(text("SELECT display_name, later FROM users WHERE id = 1")).one()
    assert tuple(user) == ("kept", "added")
    assert migrate(empty_database_url) == ()


def test_failed_later_revision_does_not_change_the_database(
    empty: Engine, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty_database_url)
    before = catalog(empty)
    later_program(
        tmp_path / "migrations",
        monkeypatch,
        "ALTER TABLE users ADD COLUMN later text; SELECT 1 / 0",
    )
    with pytest.raises(MigrationError, match="division by zero"):
        migrate(empty_database_url)
    assert catalog(empty) == before
    with empty.connect() as connection:
        assert migrations.revision_of(connection) == HEAD


def test_failed_migration_creates_no_tables(empty: Engine, empty_database_url: str) -> None:
    with empty.begin() as connection:
        connection.execute(text("CREATE TABLE cluster ()"))
    with pytest.raises(MigrationError, match='relation "cluster" already exists'):
        migrate(empty_database_url)
    with empty.connect() as connection:
        tables = text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        assert connection.execute(tables).scalars().all() == ["cluster"]


def test_rejects_database_of_an_older_draft(empty: Engine, empty_database_url: str) -> None:
    with empty.begin() as connection:
        connection.execute(text("CREATE TABLE schema_migrations (version integer)"))
    with pytest.raises(MigrationError, match=r"a draft of 0\.1\.0.*move its data directory away"):
        migrate(empty_database_url)


def test_rejects_draft_with_an_unknown_alembic_revision(
    empty: Engine, empty_database_url: str
) -> None:
    migrate(empty_database_url)
    with empty.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0139'"))
    assert BASELINE == "0001"
    with pytest.raises(MigrationError, match=r"a draft of 0\.1\.0.*export what you need"):
        migrate(empty_database_url)


def test_rejects_draft_with_the_number_of_the_baseline(
    empty: Engine, empty_database_url: str
) -> None:
    with empty.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num text)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('0001')"))
    with pytest.raises(MigrationError, match=r"a draft of 0\.1\.0"):
        migrate(empty_database_url)


def test_rejects_database_of_a_newer_version(empty: Engine, empty_database_url: str) -> None:
    migrate(empty_database_url)
    with empty.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(MigrationError, match=f"at revision 9999, this program knows {HEAD}"):
        migrate(empty_database_url)


def test_files_are_named_by_their_revisions(empty: Engine) -> None:
    with empty.connect() as connection:
        scripts = ScriptDirectory.from_config(alembic_config(connection))
    assert scripts.get_current_head() == HEAD
    files = sorted(path.name[:4] for path in (migrations.FOLDER / "versions").glob("*.py"))
    assert files == sorted(r.revision for r in scripts.walk_revisions())


def test_a_program_without_pending_migrations_does_not_load_alembic(database_url: str) -> None:
    program = f"""
import sys
from det_controlplane.db.engine.migrate import migrate
assert migrate({database_url!r}) == ()
sys.exit("alembic" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
