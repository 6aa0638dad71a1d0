"""The resources that containers used, as their agents measure them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    container = sa.ForeignKey("containers.id", ondelete="CASCADE")
    op.create_table(
        "resource_samples",
        sa.Column("container_id", sa.Uuid, container, primary_key=True),
        sa.Column("started_at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("seconds", sa.REAL, nullable=False),
        sa.Column("cpu", sa.REAL),
        sa.Column("cpu_limit", sa.REAL),
        sa.Column("memory", sa.REAL),
        sa.Column("memory_limit", sa.REAL),
        sa.Column("disk_read", sa.REAL),
        sa.Column("disk_write", sa.REAL),
        sa.Column("net_received", sa.REAL),
        sa.Column("net_sent", sa.REAL),
        sa.Column("gpus", postgresql.JSONB),
        sa.Column("coarse", sa.Boolean, server_default=sa.false(), nullable=False),
    )
    op.create_index("resource_samples_by_age", "resource_samples", ["coarse", "started_at"])
