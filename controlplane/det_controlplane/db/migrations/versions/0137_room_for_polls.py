"""Leave room in the pages of agents, each of which a poll updates."""

from alembic import op

revision = "0137"
down_revision = "0136"


def upgrade() -> None:
    op.execute(
        "ALTER TABLE agents SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0,"
        " autovacuum_vacuum_threshold = 1000)"
    )
