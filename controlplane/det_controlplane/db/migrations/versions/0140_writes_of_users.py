"""Count the changes of users, so that a read-only copy of the database is read when it has them."""

import sqlalchemy as sa
from alembic import op

revision = "0140"
down_revision = "0139"


def upgrade() -> None:
    op.add_column(
        "users", sa.Column("writes", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
