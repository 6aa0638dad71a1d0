"""The choice, the state, the predicted end and the probability of each deadline."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_Time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("deadlines", sa.Column("way", sa.Text))
    state = sa.Column("state", sa.Text, nullable=False, server_default=sa.text("'ON_TRACK'"))
    op.add_column("deadlines", state)
    op.add_column("deadlines", sa.Column("end_at", _Time))
    op.add_column("deadlines", sa.Column("probability", sa.Double))
