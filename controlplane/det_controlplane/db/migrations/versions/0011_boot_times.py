"""When the kernels of rented machines started."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("instances", sa.Column("booted_at", sa.DateTime(timezone=True)))
