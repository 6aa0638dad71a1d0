"""Let tokens of tasks be good for the task itself only."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column("narrow", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
