"""The placement groups of machines of gangs."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("instances", sa.Column("placement", sa.Text))
