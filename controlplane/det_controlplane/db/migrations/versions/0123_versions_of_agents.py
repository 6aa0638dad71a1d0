"""Keep the version of each agent's program, beside that of the interface that it reports."""

import sqlalchemy as sa
from alembic import op

revision = "0123"
down_revision = "0122"


def upgrade() -> None:
    column = sa.Column("product_version", sa.Text(), server_default=sa.text("''"), nullable=False)
    op.add_column("agents", column)
