"""Keep which machines ended without their agents: it was read from sentences."""

import sqlalchemy as sa
from alembic import op

revision = "0111"
down_revision = "0110"


def upgrade() -> None:
    false = sa.text("false")
    op.add_column(
        "instances", sa.Column("no_show", sa.Boolean, nullable=False, server_default=false)
    )
