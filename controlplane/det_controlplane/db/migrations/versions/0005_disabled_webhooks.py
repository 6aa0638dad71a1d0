"""Webhooks that send nothing until somebody enables them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    enabled = sa.Column("enabled", sa.Boolean, server_default=sa.true(), nullable=False)
    op.add_column("webhooks", enabled)
