"""Index the lists of a large cluster: experiments, runs, the queue and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0129"
down_revision = "0128"


def upgrade() -> None:
    op.create_index(
        "allocations_by_assignment",
        "allocations",
        ["pool", "assigned_at"],
        postgresql_include=["requested_at"],
        postgresql_where=sa.text("assigned_at IS NOT NULL"),
    )
    op.create_index(
        "audit_log_by_action",
        "audit_log",
        ["action", "id"],
        postgresql_ops={"action": "text_pattern_ops"},
    )
    op.create_index("audit_log_by_user", "audit_log", ["username", "id"])
    op.create_index("experiments_by_label", "experiments", ["labels"], postgresql_using="gin")
    op.create_index("experiments_by_start", "experiments", ["started_at", "id"])
    op.create_index("experiments_by_state", "experiments", ["state", "id"])
    op.create_index(
        "experiments_listed",
        "experiments",
        ["id"],
        postgresql_include=["archived", "project_id", "user_id", "state"],
    )
    op.create_index(
        "trials_listed", "trials", ["experiment_id", "id"], postgresql_include=["archived"]
    )
