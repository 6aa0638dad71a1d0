"""Types and prices as clouds tell them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "market_reads",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("problem", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("provider", "region", name=op.f("market_reads_pkey")),
    )
    op.create_table(
        "market_types",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("machine_type", sa.Text(), nullable=False),
        sa.Column("zones", postgresql.JSONB(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(
            "provider", "region", "machine_type", name=op.f("market_types_pkey")
        ),
    )
    op.create_table(
        "market_prices",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("machine_type", sa.Text(), nullable=False),
        sa.Column(
            "capacity",
            postgresql.ENUM(name="capacity", create_type=False),
            nullable=False,
        ),
        sa.Column("price_usd_hour", sa.Numeric(precision=14, scale=6), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("price_usd_hour > 0", name=op.f("market_prices_positive_check")),
        sa.PrimaryKeyConstraint(
            "provider",
            "region",
            "zone",
            "machine_type",
            "capacity",
            name=op.f("market_prices_pkey"),
        ),
    )
