"""Remember of each session from where somebody signed in, and by which program."""

import sqlalchemy as sa
from alembic import op

revision = "0117"
down_revision = "0116"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("address", sa.Text()))
    op.add_column("sessions", sa.Column("program", sa.Text()))
