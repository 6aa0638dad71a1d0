"""Keep what reports of usage need: names of workspaces at the time, and allocations of what was deleted."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "deleted_allocations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column(
            "task_kind", postgresql.ENUM(name="task_kind", create_type=False), nullable=False
        ),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("workspace_name", sa.Text(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=True),
        sa.Column("labels", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("pull_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("deleted_allocations_user_id_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("deleted_allocations_pkey")),
    )
    op.create_index("deleted_allocations_by_end", "deleted_allocations", ["ended_at"])
    op.add_column("allocations", sa.Column("workspace_name", sa.Text(), nullable=True))
    op.execute("""
        UPDATE allocations a SET workspace_name = w.name FROM jobs j JOIN workspaces w ON w.id = j.workspace_id
        WHERE j.id = a.job_id AND a.started_at IS NOT NULL
    """)
