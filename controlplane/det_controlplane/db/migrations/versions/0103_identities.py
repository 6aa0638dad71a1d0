"""Remember as whom people sign in elsewhere."""

import sqlalchemy as sa
from alembic import op

revision = "0103"
down_revision = "0102"


def upgrade() -> None:
    op.add_column("users", sa.Column("identity", sa.Text()))
    op.create_unique_constraint("users_identity_key", "users", ["identity"])
