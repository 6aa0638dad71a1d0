"""Imports of other clusters."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.create_table(
        "imports",
        sa.Column("id", sa.Integer, sa.Identity(always=True), primary_key=True),
        sa.Column("source", sa.Text, nullable=False, unique=True),
        sa.Column("offsets", postgresql.JSONB, nullable=False),
        sa.Column("merged", postgresql.JSONB, nullable=False),
        sa.Column("logs", sa.Text, nullable=False),
        sa.Column("people", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("experiment", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("began_at", time, nullable=False, server_default=sa.text("now()")),
        sa.Column("ended_at", time),
    )
