"""Keep which ports of a task are proxied, and when traffic last went to one."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0109"
down_revision = "0108"


def upgrade() -> None:
    empty = sa.text("'[]'")
    op.add_column(
        "tasks", sa.Column("proxies", postgresql.JSONB(), nullable=False, server_default=empty)
    )
    op.add_column("tasks", sa.Column("proxied_at", sa.DateTime(timezone=True)))
