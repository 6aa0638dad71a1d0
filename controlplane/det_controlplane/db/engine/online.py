"""Steps of revisions that do not block users of a large table.

A revision with `outside_transaction = True` consists only of such steps. It may be interrupted between them, so each
step can be repeated.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from det_controlplane.db.schema.base import HAS_TRIGRAMS

_INVALID = sa.text("SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")


def create_index(
    name: str, table: str, columns: Sequence[str | sa.TextClause], **options: Any
) -> None:
    """Create an index while others write to its table. In a transaction, of an empty database, create it at once."""
    if not _is_live():
        op.create_index(name, table, columns, **options)
        return
    # An interrupted step leaves an index that is maintained and never read.
    if not op.get_context().as_sql and op.get_bind().scalar(_INVALID, {"name": name}):
        op.drop_index(name, postgresql_concurrently=True)
    op.create_index(
        name, table, columns, if_not_exists=True, postgresql_concurrently=True, **options
    )


def repeat(statement: str) -> None:
    """Execute a statement until it changes no row. Each turn changes a bounded number, and commits by itself."""
    if op.get_context().as_sql:
        op.execute(statement)
        return
    while op.get_bind().execute(sa.text(statement)).rowcount:
        pass


def create_trigram_index(name: str, table: str, column: str) -> None:
    """Create an index for searches in a text, if the database has the extension for it."""
    if op.get_context().as_sql or op.get_bind().scalar(HAS_TRIGRAMS):
        lowered = sa.text(f"lower({column}) gin_trgm_ops")
        create_index(name, table, [lowered], postgresql_using="gin")


def validate(table: str, constraint: str) -> None:
    """Check the rows that a constraint did not look at, because an earlier revision added it as NOT VALID."""
    op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {constraint}")


def _is_live() -> bool:
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return True
    return bool(context.connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT")
