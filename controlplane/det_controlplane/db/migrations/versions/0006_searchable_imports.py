"""Imports with a name, the range of their old ids, and their remarks."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("imports", sa.Column("name", sa.Text))
    for name, default in (("last_ids", "{}"), ("remarks", "[]")):
        column = sa.Column(
            name, postgresql.JSONB, nullable=False, server_default=sa.text(f"'{default}'")
        )
        op.add_column("imports", column)
