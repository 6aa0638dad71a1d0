"""Pools that are changed without a restart, the access to pools, and agents that change pool."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"

_Time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "resource_pools",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("settings", postgresql.JSON, nullable=False),
        sa.Column("sealed", sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column("adopted", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("created_at", _Time, nullable=False),
        sa.Column("created_by", sa.Integer, sa.ForeignKey("users.id", ondelete="SET NULL")),
        sa.Column("changed_at", _Time, nullable=False),
        sa.Column("changed_by", sa.Integer, sa.ForeignKey("users.id", ondelete="SET NULL")),
        sa.Column("leaving_since", _Time),
        sa.Column("agents_to", sa.Text),
        sa.CheckConstraint("name <> ''", name="name"),
    )
    op.create_table(
        "restricted_pools",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("restricted_at", _Time, nullable=False),
    )
    _create_access()
    op.add_column(
        "cluster",
        sa.Column("pools_revision", sa.BigInteger, server_default=sa.text("0"), nullable=False),
    )
    op.add_column("cluster", sa.Column("default_compute_pool", sa.Text))
    op.add_column("cluster", sa.Column("default_aux_pool", sa.Text))
    for name in ("chosen_pool", "option_pool", "moves_to"):
        op.add_column("agents", sa.Column(name, sa.Text))


def _create_access() -> None:
    op.create_table(
        "pool_access",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column(
            "pool",
            sa.Text,
            sa.ForeignKey("restricted_pools.pool", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("user_id", sa.Integer, sa.ForeignKey("users.id", ondelete="CASCADE")),
        sa.Column("group_id", sa.Integer, sa.ForeignKey("groups.id", ondelete="CASCADE")),
        sa.CheckConstraint("(user_id IS NULL) <> (group_id IS NULL)", name="holder"),
    )
    holder = [sa.text("coalesce(user_id, 0)"), sa.text("coalesce(group_id, 0)")]
    op.create_index("pool_access_once", "pool_access", ["pool", *holder], unique=True)
    op.create_index("pool_access_by_user", "pool_access", ["user_id"])
    op.create_index("pool_access_by_group", "pool_access", ["group_id"])
