"""Migrations of a database in use: they do not block users for long, and interrupted steps are repeated."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import op
from det_controlplane.db.engine import migrate as migrating
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.migrate import FOLDER, HEAD, MigrationError, migrate
from sqlalchemy import Engine, text

from tests.db.test_expand_only import LATER, revision, statements

_CREATED = re.compile(r"CREATE TABLE (\w+)")
_LOCKING = {
    "creates an index in a table that is in use; see db/engine/online.py": re.compile(
        r"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)\w+ ON (\w+)"
    ),
    "adds a constraint that is checked at once; say NOT VALID, and validate it in the next revision": re.compile(
        r"ALTER TABLE (\w+) ADD (?:CONSTRAINT \w+ )?(?:CHECK|FOREIGN KEY)(?![^;]*NOT VALID)"
    ),
}
_REVISION = """
from alembic import op
from det_controlplane.db.engine import online
revision, down_revision = "{number}", "{before}"
outside_transaction = {outside}
def upgrade():
    {upgrade}
"""


def locking(upgrade: Callable[[], None]) -> list[str]:
    sql = statements(upgrade)
    tables = set(_CREATED.findall(sql))
    return [
        problem
        for problem, pattern in _LOCKING.items()
        if any(table not in tables for table in pattern.findall(sql))
    ]


def test_new_revisions_do_not_lock_tables_for_long() -> None:
    assert {path.stem: locking(revision(path).upgrade) for path in LATER} == {
        path.stem: [] for path in LATER
    }


@pytest.mark.parametrize(
    "upgrade",
    [
        lambda: op.create_index("users_by_name", "users", ["name"]),
        lambda: op.create_check_constraint("age", "users", "age > 0"),
        lambda: op.create_foreign_key("owner", "users", "groups", ["group_id"], ["id"]),
    ],
)
def test_detects_steps_that_lock_a_table_for_long(upgrade: Callable[[], None]) -> None:
    assert len(locking(upgrade)) == 1


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of revisions to which a test adds its own."""
    folder = tmp_path / "migrations"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrating, "FOLDER", folder)
    return folder / "versions"


@pytest.fixture
def live(empty_database_url: str) -> str:
    """Return the URL of a database at the newest revision."""
    migrate(empty_database_url)
    return empty_database_url


def add(
    versions: Path, monkeypatch: pytest.MonkeyPatch, upgrade: str, *, outside: bool = False
) -> None:
    """Add a revision behind the newest."""
    number = str(int(HEAD) + 1).zfill(4)
    content = _REVISION.format(number=number, before=HEAD, outside=outside, upgrade=upgrade)
    (versions / f"{number}_of_a_test.py").write_text(content)
    monkeypatch.setattr(migrating, "HEAD", number)


def engine_of(url: str, request: pytest.FixtureRequest) -> Engine:
    engine = plain_engine(url)
    request.addfinalizer(engine.dispose)
    return engine


COLUMN = 'op.execute("ALTER TABLE jobs ADD COLUMN age integer")'


def test_migration_waiting_for_a_lock_does_not_block_queries(
    live: str, versions: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    add(versions, monkeypatch, COLUMN)
    engine = engine_of(live, request)
    reader = engine.connect()
    reader.execute(text("SELECT count(*) FROM jobs"))
    counts = []

    def look(seconds: float) -> None:
        with engine.connect() as other:
            other.execute(text("SET statement_timeout = '1s'"))
            counts.append(other.scalar(text("SELECT count(*) FROM jobs")))
        if len(counts) == 2:
            reader.close()

    monkeypatch.setattr(migrating, "pause", look)
    assert migrate(live) == (migrating.HEAD,)
    assert counts == [0, 0]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT age FROM jobs")).all() == []


def test_migration_without_a_lock_reports_the_blocking_process(
    live: str, versions: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    add(versions, monkeypatch, COLUMN)
    monkeypatch.setattr(migrating, "ATTEMPTS", 1)
    engine = engine_of(live, request)
    with engine.connect() as reader:
        pid = reader.scalar(text("SELECT pg_backend_pid() FROM (SELECT count(*) FROM jobs) x"))
        with pytest.raises(MigrationError, match=rf"got no lock in 1 attempts.*process {pid} "):
            migrate(live)
    assert migrate(live) == (migrating.HEAD,)


INDEX = 'online.create_index("jobs_by_name", "jobs", ["name"])'
_IS_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = 'jobs_by_name'::regclass")


def test_index_on_a_used_table_is_built_concurrently(
    live: str, versions: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    add(versions, monkeypatch, INDEX, outside=True)
    engine = engine_of(live, request)
    rows_read = []
    original = op.create_index

    def watched(*args: object, **options: object) -> None:
        rows_read.append(options.get("postgresql_concurrently"))
        original(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(op, "create_index", watched)
    assert migrate(live) == (migrating.HEAD,)
    assert rows_read == [True]
    with engine.connect() as connection:
        assert connection.scalar(_IS_VALID) is True


def test_an_interrupted_index_is_built_again(
    live: str, versions: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    add(versions, monkeypatch, INDEX, outside=True)
    engine = engine_of(live, request)
    with engine.begin() as connection:
        connection.execute(text("CREATE INDEX jobs_by_name ON jobs (kind)"))
        connection.execute(
            text(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jobs_by_name'::regclass"
            )
        )
    migrate(live)
    with engine.connect() as connection:
        assert connection.scalar(_IS_VALID) is True
        definition = connection.scalar(text("SELECT pg_get_indexdef('jobs_by_name'::regclass)"))
    assert definition.endswith("(name)")


def test_migration_of_an_empty_database_creates_indexes_in_its_transaction(
    empty_database_url: str,
    versions: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    add(versions, monkeypatch, INDEX, outside=True)
    assert migrate(empty_database_url)[-1] == migrating.HEAD
    with engine_of(empty_database_url, request).connect() as connection:
        assert connection.scalar(_IS_VALID) is True


def test_a_database_of_an_earlier_revision_is_migrated_step_by_step(
    live: str, versions: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The second revision fails, so the first one must have been committed before."""
    add(versions, monkeypatch, COLUMN)
    first = migrating.HEAD
    monkeypatch.setattr(f"{__name__}.HEAD", first)
    add(versions, monkeypatch, 'op.execute("SELECT 1 / 0")')
    with pytest.raises(MigrationError, match="division by zero"):
        migrate(live)
    with engine_of(live, request).connect() as connection:
        assert migrating.revision_of(connection) == first
