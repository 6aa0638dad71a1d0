"""Keep what makes the addresses of webhooks secret apart, encrypted."""

import sqlalchemy as sa
from alembic import op

revision = "0116"
down_revision = "0115"


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("sealed", sa.Text()))
