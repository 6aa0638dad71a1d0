"""Let a run be archived apart from its experiment."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column(
        "trials",
        sa.Column("archived", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
