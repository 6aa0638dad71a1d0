"""The cost at which a search ends."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("searches", sa.Column("cost_limit_usd", sa.Double))
