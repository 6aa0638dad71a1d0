"""Store how long a revived run waits for agents that have not joined again."""

import sqlalchemy as sa
from alembic import op

revision = "0128"
down_revision = "0127"


def upgrade() -> None:
    op.add_column("allocations", sa.Column("awaited_until", sa.DateTime(timezone=True)))
