"""Data sets in the caches of agents, and the data sets of allocations."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    sources: sa.Column[list[str]] = sa.Column(
        "data_sets", ARRAY(sa.Text), server_default=sa.text("'{}'"), nullable=False
    )
    op.add_column("allocations", sources)
    reason = sa.Column("data_reason", sa.Text, server_default=sa.text("''"), nullable=False)
    op.add_column("allocations", reason)
    op.add_column("allocations", sa.Column("data_s", sa.Double))
    op.create_table(
        "data_caches",
        sa.Column(
            "agent_id", sa.Text, sa.ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("used_bytes", sa.BigInteger, nullable=False),
        sa.Column("sets", JSONB, nullable=False),
    )
