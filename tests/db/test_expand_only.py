"""Migrations only add to the schema, so the previous version works on it during a deployment and after a rollback.

A later release removes unused parts: its revision states `unused_since = "0.3.0"`, the release that stopped using
them.
"""

import importlib.util
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy as sa
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from det_controlplane.db.engine.migrate import BASELINE, FOLDER

VERSIONS = FOLDER / "versions"
LATER = sorted(path for path in VERSIONS.glob("[0-9]*.py") if path.name[:4] > BASELINE)
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
# Changes that break an older version. Dropped indexes, checks and foreign keys do not break it. Unique keys may not be
# dropped, because statements of the older version name them in ON CONFLICT.
CONTRACTING = {
    "drops a table": r"DROP TABLE",
    "drops a column": r"DROP COLUMN",
    "drops a type": r"DROP TYPE",
    "drops a view": r"DROP (?:MATERIALIZED )?VIEW",
    "drops a default": r"DROP DEFAULT",
    "drops what rows are unique by": r"DROP CONSTRAINT (?:IF EXISTS )?\S*_(?:key|pkey)\b",
    "renames": r"\bRENAME\b",
    "changes a column's type": r"ALTER COLUMN \S+ (?:SET DATA )?TYPE",
    "refuses nulls in a column that is there": r"SET NOT NULL",
    "adds a column that must be given": r"ADD COLUMN (?![^,;]*\b(?:DEFAULT|GENERATED)\b)[^,;]*NOT NULL",
}  # fmt: skip


def statements(upgrade: Callable[[], None]) -> str:
    """Return the SQL of a revision."""
    buffer = io.StringIO()
    options = {"as_sql": True, "output_buffer": buffer}
    context = MigrationContext.configure(dialect_name="postgresql", opts=options)
    with Operations.context(context):
        upgrade()
    return re.sub(r"\s+", " ", buffer.getvalue())


def contracting(upgrade: Callable[[], None]) -> list[str]:
    sql = statements(upgrade)
    return [
        change for change, pattern in CONTRACTING.items() if re.search(pattern, sql, re.IGNORECASE)
    ]


def revision(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"revision_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def releases() -> list[str]:
    return re.findall(r"^## (\d+\.\d+\.\d+)", CHANGELOG.read_text(), re.MULTILINE)


def problems(module: ModuleType) -> Iterator[str]:
    found = contracting(module.upgrade)
    since = getattr(module, "unused_since", None)
    if found and since is None:
        yield f"{' and '.join(found)}: the version before this one still works on the schema"
    if since is not None and since not in releases():
        yield f"{since}, which no longer used it, is not released: the version before may be older"


def test_a_revision_only_adds_to_the_schema() -> None:
    problems_by_name = {path.stem: list(problems(revision(path))) for path in LATER}
    assert problems_by_name == {path.stem: [] for path in LATER}


@pytest.mark.parametrize(
    ("upgrade", "what"),
    [
        (lambda: op.drop_table("pools"), "drops a table"),
        (lambda: op.drop_column("users", "admin"), "drops a column"),
        (lambda: op.execute("drop type kind"), "drops a type"),
        (lambda: op.execute("DROP VIEW users_by_name"), "drops a view"),
        (lambda: op.drop_constraint("users_name_key", "users"), "drops what rows are unique by"),
        (lambda: op.rename_table("users", "people"), "renames"),
        (lambda: op.alter_column("users", "name", new_column_name="called"), "renames"),
        (lambda: op.alter_column("users", "name", server_default=None), "drops a default"),
        (lambda: op.alter_column("users", "id", type_=sa.BigInteger()), "changes a column's type"),
        (
            lambda: op.alter_column("users", "name", nullable=False),
            "refuses nulls in a column that is there",
        ),
        (
            lambda: op.add_column("users", sa.Column("age", sa.Integer(), nullable=False)),
            "adds a column that must be given",
        ),
    ],
)
def test_detects_changes_that_break_the_previous_version(
    upgrade: Callable[[], None], what: str
) -> None:
    assert contracting(upgrade) == [what]


@pytest.mark.parametrize(
    "upgrade",
    [
        lambda: op.add_column("users", sa.Column("age", sa.Integer())),
        lambda: op.add_column(
            "users", sa.Column("age", sa.Integer(), server_default=sa.text("0"), nullable=False)
        ),
        lambda: op.add_column(
            "users", sa.Column("low", sa.Text(), sa.Computed("lower(name)"), nullable=False)
        ),
        lambda: op.create_table("ages", sa.Column("years", sa.Integer(), nullable=False)),
        lambda: op.alter_column("users", "name", nullable=True),
        lambda: op.drop_index("users_by_name", "users"),
        lambda: op.drop_constraint("users_age_check", "users"),
    ],
)
def test_allows_changes_that_keep_the_previous_version_working(upgrade: Callable[[], None]) -> None:
    assert contracting(upgrade) == []


def dropping(**statement: str) -> ModuleType:
    module = ModuleType("revision")
    module.__dict__.update(upgrade=lambda: op.drop_column("users", "age"), **statement)
    return module


def test_column_unused_since_the_last_release_can_be_dropped() -> None:
    released = releases()[0]
    assert list(problems(dropping(unused_since=released))) == []
    assert list(problems(dropping())) != []
    (problem,) = problems(dropping(unused_since="99.0.0"))
    assert problem.startswith("99.0.0, which no longer used it, is not released")
