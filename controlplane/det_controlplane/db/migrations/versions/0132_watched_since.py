"""Keep since when ticks have followed each other closely: an agent's silence counts from then on."""

import sqlalchemy as sa
from alembic import op

revision = "0132"
down_revision = "0131"


def upgrade() -> None:
    op.add_column("cluster", sa.Column("watched_since", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("cluster", "watched_since")
