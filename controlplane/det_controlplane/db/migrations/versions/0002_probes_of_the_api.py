"""The times of requests by which ticks check that the API answers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("cluster", sa.Column("probed_at", sa.DateTime(timezone=True)))
    op.add_column("cluster", sa.Column("reached_at", sa.DateTime(timezone=True)))
