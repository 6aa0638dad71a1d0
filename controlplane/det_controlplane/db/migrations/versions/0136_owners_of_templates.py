"""Keep who created a template: the owner sees its environment variables."""

import sqlalchemy as sa
from alembic import op

revision = "0136"
down_revision = "0135"


def upgrade() -> None:
    op.add_column(
        "templates",
        sa.Column(
            "user_id",
            sa.Integer,
            sa.ForeignKey("users.id", name="templates_user_id_fkey"),
            nullable=True,
        ),
    )
