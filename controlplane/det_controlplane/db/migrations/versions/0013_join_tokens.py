"""Let administrators make tokens that agents join with: they end, are counted and can be revoked."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.create_table(
        "join_tokens",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("max_uses", sa.Integer()),
        sa.Column("uses", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", time, nullable=False),
        sa.Column("expires_at", time),
        sa.Column("revoked_at", time),
        sa.Column("last_used_at", time),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("join_tokens_user_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("join_tokens_pkey")),
        sa.UniqueConstraint("token_hash", name=op.f("join_tokens_token_hash_key")),
    )
