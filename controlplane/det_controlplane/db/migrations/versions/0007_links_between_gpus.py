"""Links between GPUs, and allocations that wait for the best ones."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    links = sa.Column("links", JSONB, server_default=sa.text("'[]'"), nullable=False)
    op.add_column("agents", links)
    op.add_column("slots", sa.Column("numa_node", sa.Integer))
    strict = sa.Column("strict_topology", sa.Boolean, server_default=sa.false(), nullable=False)
    op.add_column("allocations", strict)
    op.execute("ALTER TYPE wait_code ADD VALUE IF NOT EXISTS 'TOPOLOGY' AFTER 'NO_WHOLE_AGENTS'")
