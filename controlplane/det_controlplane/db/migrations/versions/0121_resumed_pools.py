"""Keep when an operator last resumed a pool: machines that failed before it count no longer."""

import sqlalchemy as sa
from alembic import op

revision = "0121"
down_revision = "0120"


def upgrade() -> None:
    op.add_column("pools", sa.Column("resumed_at", sa.DateTime(timezone=True)))
