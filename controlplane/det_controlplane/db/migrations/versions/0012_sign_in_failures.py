"""Slow down guessing by account and address instead of locking accounts."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "sign_in_failures",
        sa.Column("username", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("username", "address", name=op.f("sign_in_failures_pkey")),
    )
    op.drop_column("users", "failed_logins")
    op.drop_column("users", "locked_until")
