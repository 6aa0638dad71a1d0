"""Deadlines of experiments, the machines that they allow, and the spells of spot offers."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_Time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.execute("ALTER TYPE wait_code ADD VALUE IF NOT EXISTS 'DEADLINE' BEFORE 'BACKING_OFF'")
    op.execute("ALTER TYPE provision_code ADD VALUE IF NOT EXISTS 'DEADLINE'")
    op.add_column("allocations", sa.Column("capacity", sa.Text))
    op.create_table(
        "deadlines",
        sa.Column(
            "experiment_id",
            sa.Integer,
            sa.ForeignKey("experiments.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("deadline", _Time, nullable=False),
        sa.Column("expected_h", sa.Double),
        sa.Column("sentence", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.Column("in_danger", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("decided_at", _Time),
    )
    op.create_table(
        "spot_spells",
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("region", sa.Text, primary_key=True),
        sa.Column("zone", sa.Text, primary_key=True),
        sa.Column("machine_type", sa.Text, primary_key=True),
        sa.Column("is_available", sa.Boolean, nullable=False),
        sa.Column("since", _Time, nullable=False),
        sa.Column("observed_at", _Time, nullable=False),
        sa.Column("losses", sa.Double, nullable=False),
        sa.Column("expected_losses", sa.Double, nullable=False),
        sa.Column("returns", sa.Double, nullable=False),
        sa.Column("expected_returns", sa.Double, nullable=False),
    )
    op.create_index("spot_spells_by_observation", "spot_spells", ["observed_at"])
