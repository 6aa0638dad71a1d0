"""Record whether the searcher stopped a trial before its whole training."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    early = sa.Column("stopped_early", sa.Boolean, server_default=sa.false(), nullable=False)
    op.add_column("trials", early)
