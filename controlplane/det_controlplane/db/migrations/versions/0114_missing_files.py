"""Remember when the files of checkpoints were looked for, and how often in a row none were there."""

import sqlalchemy as sa
from alembic import op

revision = "0114"
down_revision = "0113"


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("files_looked_at", sa.DateTime(timezone=True)))
    op.add_column(
        "checkpoints",
        sa.Column(
            "looks_without_files", sa.SmallInteger(), server_default=sa.text("0"), nullable=False
        ),
    )
