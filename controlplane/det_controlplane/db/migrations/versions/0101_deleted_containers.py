"""Keep what the work of deleted experiments and workspaces cost."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0101"
down_revision = "0100"


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.create_table(
        "deleted_containers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("allocation_id", sa.Text(), nullable=False),
        sa.Column("trial_id", sa.Integer()),
        sa.Column("experiment_id", sa.Integer()),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=False),
        sa.Column("labels", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "task_kind", postgresql.ENUM(name="task_kind", create_type=False), nullable=False
        ),
        sa.Column("allocation_slots", sa.Integer(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("assigned_at", time, nullable=False),
        sa.Column("ended_at", time, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("deleted_containers_user_id_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("deleted_containers_pkey")),
    )
    op.create_index("deleted_containers_by_agent", "deleted_containers", ["agent_id"])
