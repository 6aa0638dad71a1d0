"""Tell how much code a user has sent of late, without a look at every archive."""

import sqlalchemy as sa
from alembic import op

revision = "0120"
down_revision = "0119"


def upgrade() -> None:
    op.create_index(
        "contexts_sent",
        "contexts",
        ["user_id", "created_at"],
        postgresql_include=["size"],
        postgresql_where=sa.text("size > 16384"),
    )
