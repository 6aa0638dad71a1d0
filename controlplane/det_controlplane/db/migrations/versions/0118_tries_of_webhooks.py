"""Keep the last tries to deliver messages of each webhook."""

import sqlalchemy as sa
from alembic import op

revision = "0118"
down_revision = "0117"


def upgrade() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column(
            "webhook_id",
            sa.Integer(),
            sa.ForeignKey("webhooks.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("experiment_id", sa.Integer()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failure", sa.Text()),
        sa.Column("next_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint(
            "next_at IS NULL OR failure IS NOT NULL", name=op.f("webhook_deliveries_again_check")
        ),
    )
    op.create_index("webhook_deliveries_by_webhook", "webhook_deliveries", ["webhook_id", "id"])
