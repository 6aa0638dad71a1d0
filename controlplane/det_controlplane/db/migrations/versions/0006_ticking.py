"""Note whether schedules of a cloud call the control plane."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column(
        "cluster",
        sa.Column("ticking", sa.Boolean(), server_default=sa.text("true"), nullable=False),
    )
