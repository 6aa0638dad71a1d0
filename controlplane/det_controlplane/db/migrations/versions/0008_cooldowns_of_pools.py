"""Refusals of one pool's section, and zones that a cloud names as having room."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column(
        "cooldowns", sa.Column("pool", sa.Text(), server_default=sa.text("''"), nullable=False)
    )
    op.add_column(
        "cooldowns",
        sa.Column("hint", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
    )
    op.drop_constraint("cooldowns_pkey", "cooldowns")
    op.create_primary_key(
        "cooldowns_pkey",
        "cooldowns",
        ["provider", "region", "zone", "machine_type", "capacity", "pool"],
    )
