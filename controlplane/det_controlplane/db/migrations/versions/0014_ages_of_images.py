"""When the images of rented machines were made."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("instances", sa.Column("image_built_at", sa.DateTime(timezone=True)))
