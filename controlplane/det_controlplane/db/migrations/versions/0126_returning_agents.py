"""Keep when ticks ran, where a trial's run starts, and which tokens wait for a lost agent to join again."""

import sqlalchemy as sa
from alembic import op

revision = "0126"
down_revision = "0125"


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.add_column("allocations", sa.Column("start_checkpoint", sa.Uuid(), nullable=True))
    op.add_column("allocations", sa.Column("start_steps", sa.Integer(), nullable=True))
    op.add_column("cluster", sa.Column("ticked_at", time, nullable=True))
    op.add_column("cluster", sa.Column("answering_since", time, nullable=True))
    op.add_column("sessions", sa.Column("waits_for_agent", sa.Text(), nullable=True))
    op.create_index(
        "sessions_that_wait",
        "sessions",
        ["waits_for_agent"],
        unique=False,
        postgresql_where=sa.text("waits_for_agent IS NOT NULL"),
    )
