"""Count how often the relay missed each agent."""

import sqlalchemy as sa
from alembic import op

revision = "0127"
down_revision = "0126"


def upgrade() -> None:
    dials = sa.Column("relay_dials", sa.Integer(), server_default=sa.text("0"), nullable=False)
    op.add_column("agents", dials)
