"""Keep when each agent said last that log lines wait on its disk."""

import sqlalchemy as sa
from alembic import op

revision = "0124"
down_revision = "0123"


def upgrade() -> None:
    op.add_column("agents", sa.Column("unsent_at", sa.DateTime(timezone=True), nullable=True))
