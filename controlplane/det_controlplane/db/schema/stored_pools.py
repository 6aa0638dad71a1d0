"""Define the tables of pools that are changed without a restart, and of the access to pools."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from det_controlplane.db.schema.base import ORDERED_JSON, Time, metadata

# Pools in the database. A row replaces a pool of the configuration that has its name.
resource_pools = Table(
    "resource_pools",
    metadata,
    Column("name", Text, primary_key=True),
    # The keys of `resource_pools` in the configuration, with asterisks in place of secrets.
    Column("settings", ORDERED_JSON, nullable=False),
    Column("sealed", Text, nullable=False, server_default=text("''")),
    Column("adopted", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", Time, nullable=False),
    Column("created_by", Integer, ForeignKey("users.id", ondelete="SET NULL")),
    Column("changed_at", Time, nullable=False),
    Column("changed_by", Integer, ForeignKey("users.id", ondelete="SET NULL")),
    # Since when the pool takes no new work. It is deleted when its work has ended.
    Column("leaving_since", Time),
    Column("agents_to", Text),  # the pool that then gets its agents
    CheckConstraint("name <> ''", name="name"),
)

# Pools that only some people may use; a pool without a row is for everybody.
restricted_pools = Table(
    "restricted_pools",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("restricted_at", Time, nullable=False),
)

pool_access = Table(
    "pool_access",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("pool", Text, ForeignKey("restricted_pools.pool", ondelete="CASCADE"), nullable=False),
    Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE")),
    Column("group_id", Integer, ForeignKey("groups.id", ondelete="CASCADE")),
    CheckConstraint("(user_id IS NULL) <> (group_id IS NULL)", name="holder"),
    Index(
        "pool_access_once",
        "pool",
        text("coalesce(user_id, 0)"),
        text("coalesce(group_id, 0)"),
        unique=True,
    ),
    Index("pool_access_by_user", "user_id"),
    Index("pool_access_by_group", "group_id"),
)
