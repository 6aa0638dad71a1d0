"""Pools that choose the number of their warm machines."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0015"

_Time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "warm_pools",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("rates", postgresql.JSONB, nullable=False),
        sa.Column("startup_h", sa.Double, nullable=False),
        sa.Column("measured_at", _Time, nullable=False),
        sa.Column("machines", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("sentence", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.Column("decided_at", _Time, nullable=False),
        sa.Column("spent_usd", sa.Double, nullable=False, server_default=sa.text("0")),
        sa.Column("usd_hour", sa.Double, nullable=False, server_default=sa.text("0")),
    )
