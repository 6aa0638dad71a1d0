"""Let a repeated launch find the task that the first one made."""

import sqlalchemy as sa
from alembic import op

revision = "0113"
down_revision = "0112"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("idempotency_key", sa.Text()))
    op.create_index(
        "tasks_by_idempotency_key",
        "tasks",
        ["idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
