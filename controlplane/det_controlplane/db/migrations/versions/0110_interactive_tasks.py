"""Keep how interactive tasks ended, when they are idle, and the key to what they serve."""

import sqlalchemy as sa
from alembic import op

revision = "0110"
down_revision = "0109"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("exit_status", sa.Text()))
    op.add_column("tasks", sa.Column("access_key", sa.Text()))
    op.add_column("tasks", sa.Column("idle_timeout_s", sa.Double()))
    op.add_column("tasks", sa.Column("active_at", sa.DateTime(timezone=True)))
    op.create_index(
        "tasks_by_kind",
        "tasks",
        ["kind", "started_at"],
        postgresql_where=sa.text("trial_id IS NULL"),
    )
    op.create_index(
        "tasks_that_idle",
        "tasks",
        ["id"],
        postgresql_where=sa.text("idle_timeout_s IS NOT NULL AND ended_at IS NULL"),
    )
