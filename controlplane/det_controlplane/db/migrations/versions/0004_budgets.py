"""Budgets in money."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "scope",
            sa.Enum("experiment", "user", "workspace", "pool", name="budget_scope"),
            nullable=False,
        ),
        sa.Column("scope_id", sa.Text(), nullable=False),
        sa.Column("limit_usd", sa.Numeric(precision=14, scale=2), nullable=False),
        sa.Column("period", sa.Enum("total", "month", name="budget_period"), nullable=False),
        sa.Column(
            "state",
            sa.Enum("WITHIN", "WARNED", "DRAINING", "STOPPED", name="budget_state"),
            server_default=sa.text("'WITHIN'"),
            nullable=False,
        ),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("limit_usd > 0", name=op.f("budgets_limit_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("budgets_pkey")),
    )
    op.create_index("budgets_by_scope", "budgets", ["scope", "scope_id"], unique=True)
