"""Add the states and the trees of generic tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0112"
down_revision = "0111"


def upgrade() -> None:
    states = (
        *("ACTIVE", "STOPPING_PAUSED", "PAUSED", "STOPPING_CANCELED"),
        *("COMPLETED", "CANCELED", "ERROR"),
    )
    kind = sa.Enum(*states, name="generic_task_state")
    kind.create(op.get_bind())
    op.add_column("tasks", sa.Column("state", kind))
    op.add_column("tasks", sa.Column("parent_id", sa.Text()))
    op.add_column("tasks", sa.Column("forked_from", sa.Text()))
    false = sa.text("false")
    op.add_column(
        "tasks", sa.Column("no_pause", sa.Boolean(), nullable=False, server_default=false)
    )
    op.add_column("tasks", sa.Column("project_id", sa.Integer()))
    op.create_check_constraint(
        op.f("tasks_state_check"), "tasks", "(state IS NULL) OR (kind = 'GENERIC'::task_kind)"
    )
    op.create_index(
        "tasks_by_parent",
        "tasks",
        ["parent_id"],
        postgresql_where=sa.text("parent_id IS NOT NULL"),
    )
