"""Slow ranks, and runs without progress."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    trial = sa.ForeignKey("trials.id", ondelete="CASCADE")
    op.create_table(
        "stragglers",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("trial_id", sa.Integer, trial, nullable=False),
        sa.Column("allocation_id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("slowdown", sa.Double, nullable=False),
        sa.Column("own_s", sa.Double, nullable=False),
        sa.Column("median_s", sa.Double, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("steps_completed", sa.Integer, nullable=False),
        sa.Column("recovered", sa.Boolean, nullable=False),
        sa.Column("reported_at", time, nullable=False),
    )
    op.create_index("stragglers_by_allocation", "stragglers", ["allocation_id", "rank", "id"])
    op.create_index("stragglers_by_trial", "stragglers", ["trial_id"])
    op.create_index("stragglers_by_agent", "stragglers", ["agent_id", "reported_at"])
    op.add_column("allocations", sa.Column("progress_at", time))
    no = sa.false()
    op.add_column("allocations", sa.Column("hung", sa.Boolean, server_default=no, nullable=False))
