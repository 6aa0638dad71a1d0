"""Traces of submissions and starts."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_Time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "experiment_traces",
        sa.Column(
            "experiment_id",
            sa.Integer,
            sa.ForeignKey("experiments.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("traceparent", sa.Text),
        sa.Column("received_at", _Time, nullable=False),
    )
    op.create_table(
        "traced_starts",
        sa.Column(
            "allocation_id",
            sa.Text,
            sa.ForeignKey("allocations.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("sent_at", _Time, nullable=False),
    )
