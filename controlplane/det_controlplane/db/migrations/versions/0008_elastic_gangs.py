"""The bounds of elastic gangs, and the times at which passes look at them again."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("allocations", sa.Column("min_slots", sa.Integer))
    op.add_column("allocations", sa.Column("max_slots", sa.Integer))
    op.add_column("allocations", sa.Column("poll_by", sa.DateTime(timezone=True)))
    op.add_column("pools", sa.Column("schedule_at", sa.DateTime(timezone=True)))
