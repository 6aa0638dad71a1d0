"""Keep which logs are followed, where requests are not held: their agents send lines at once."""

import sqlalchemy as sa
from alembic import op

revision = "0106"
down_revision = "0105"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("logs_followed_until", sa.DateTime(timezone=True)))
