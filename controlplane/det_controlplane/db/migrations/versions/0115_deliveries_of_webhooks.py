"""Remember of each webhook when a message last arrived, and when and why a try last failed."""

import sqlalchemy as sa
from alembic import op

revision = "0115"
down_revision = "0114"


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("arrived_at", sa.DateTime(timezone=True)))
    op.add_column("webhooks", sa.Column("failed_at", sa.DateTime(timezone=True)))
    op.add_column("webhooks", sa.Column("failure", sa.Text()))
