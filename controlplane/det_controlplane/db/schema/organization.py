"""Users, their groups, roles and sessions, workspaces, projects and templates."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from det_controlplane.db.schema.base import JSON, ORDERED_JSON, Time, enum, metadata
from det_controlplane.db.schema.enums import DeletionState, SessionKind, WorkloadType

users = Table(
    "users",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("username", Text, nullable=False, unique=True),
    Column("password_hash", Text),  # scrypt; NULL: remote user, cannot sign in by password
    Column("display_name", Text),
    Column("admin", Boolean, nullable=False, server_default=text("false")),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    Column("remote", Boolean, nullable=False, server_default=text("false")),
    # Issuer and subject of a remote user, set at the first sign-in. They stay when names change.
    Column("identity", Text, unique=True),
    Column("agent_user", JSON),  # {agentUid, agentUser, agentGid, agentGroup}
    Column("settings", JSON, nullable=False, server_default=text("'{}'")),
    Column("modified_at", Time, nullable=False, server_default=text("now()")),
    Column("last_auth_at", Time),
    # Changes by requests of the user, counted where there is a read-only copy of the database (db/engine/replica.py).
    Column("writes", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("username <> ''", name="username"),
)

# Tokens for joining agents, beside the token of the deployment and proofs of machines.
join_tokens = Table(
    "join_tokens",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("token_hash", LargeBinary, nullable=False, unique=True),
    Column("description", Text, nullable=False),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("max_uses", Integer),
    Column("uses", Integer, nullable=False, server_default=text("0")),
    Column("created_at", Time, nullable=False),
    Column("expires_at", Time),
    Column("revoked_at", Time),
    Column("last_used_at", Time),
)

# By account, which need not exist, and address.
sign_in_failures = Table(
    "sign_in_failures",
    metadata,
    Column("username", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("last_at", Time, nullable=False),
)

# Bearer tokens; only their SHA-256 is stored.
sessions = Table(
    "sessions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("token_hash", LargeBinary, nullable=False, unique=True),
    Column("kind", enum(SessionKind), nullable=False),
    Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    # No foreign key: a token outlives its allocation by a moment, and checking it would lock the allocation.
    Column("allocation_id", Text),
    Column("description", Text),
    # A narrow token of a task: it is valid for the task itself, without the rights of its owner.
    Column("narrow", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", Time, nullable=False),
    Column("expires_at", Time),
    Column("revoked_at", Time),
    # The lost agent that runs the task. The token's requests are answered "try again" until that agent has joined again.
    Column("waits_for_agent", Text),
    # The address of the sign-in, and the user agent.
    Column("address", Text),
    Column("program", Text),
    CheckConstraint("(kind = 'allocation') = (allocation_id IS NOT NULL)", name="allocation"),
    Index("sessions_by_user", "user_id"),
    Index(
        "sessions_by_allocation",
        "allocation_id",
        postgresql_where=text("allocation_id IS NOT NULL"),
    ),
    Index(
        "sessions_that_wait",
        "waits_for_agent",
        postgresql_where=text("waits_for_agent IS NOT NULL"),
    ),
)

groups = Table(
    "groups",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    CheckConstraint("btrim(name) <> ''", name="name"),
)

group_members = Table(
    "group_members",
    metadata,
    Column("group_id", Integer, ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    Column("immutable", Boolean, nullable=False, server_default=text("false")),
    Column("state", enum(DeletionState)),
    Column("error_message", Text, nullable=False, server_default=text("''")),
    Column("agent_user", JSON),
    Column("checkpoint_storage", JSON),
    # Secrets of the configuration, encrypted; '': none, NULL: not separated yet.
    Column("sealed", Text),
    # There are no foreign keys: pools are in the cluster's configuration.
    Column("default_compute_pool", Text),
    Column("default_aux_pool", Text),
    Column("created_at", Time, nullable=False, server_default=text("now()")),
    CheckConstraint("btrim(name) <> '' AND length(name) <= 80", name="name"),
    Index("workspace_name", text("lower(name)"), unique=True),
)

workspace_pins = Table(
    "workspace_pins",
    metadata,
    Column(
        "workspace_id", Integer, ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("pinned_at", Time, nullable=False, server_default=text("now()")),
)

projects = Table(
    "projects",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column(
        "workspace_id", Integer, ForeignKey("workspaces.id", ondelete="CASCADE"), nullable=False
    ),
    Column("name", Text, nullable=False),
    Column("key", Text, nullable=False, unique=True),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("notes", JSON, nullable=False, server_default=text("'[]'")),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    Column("immutable", Boolean, nullable=False, server_default=text("false")),
    Column("state", enum(DeletionState)),
    Column("error_message", Text, nullable=False, server_default=text("''")),
    Column("created_at", Time, nullable=False, server_default=text("now()")),
    CheckConstraint("btrim(name) <> ''", name="name"),
    CheckConstraint("key ~ '^[A-Z0-9]{1,5}$'", name="key"),
    Index("project_name", "workspace_id", text("lower(name)"), unique=True),
)

# The projects that each user looked at last.
project_views = Table(
    "project_views",
    metadata,
    Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    Column("viewed_at", Time, nullable=False),
)

templates = Table(
    "templates",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", ORDERED_JSON, nullable=False),
    # Secrets of the configuration, encrypted; '': none, NULL: not separated yet.
    Column("sealed", Text),
    Column(
        "workspace_id", Integer, ForeignKey("workspaces.id", ondelete="CASCADE"), nullable=False
    ),
    # The user who created the template and sees its variables; NULL for rows from before.
    Column("user_id", Integer, ForeignKey("users.id")),
    CheckConstraint("btrim(name) <> ''", name="name"),
)

# Scope 0 is the whole cluster, so there is no foreign key.
config_policies = Table(
    "config_policies",
    metadata,
    Column("workspace_id", Integer, primary_key=True),
    Column("workload_type", enum(WorkloadType), primary_key=True),
    Column("policy", ORDERED_JSON, nullable=False),
    # Secrets of the configuration, encrypted; '': none, NULL: not separated yet.
    Column("sealed", Text),
)

# Pools reserved for workspaces; a pool without a row is for everybody.
pool_bindings = Table(
    "pool_bindings",
    metadata,
    Column("pool", Text, primary_key=True),
    Column(
        "workspace_id", Integer, ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True
    ),
)

# Roles (core/people/roles.py) of users and of groups; without a workspace they hold in the whole cluster.
role_assignments = Table(
    "role_assignments",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("role", Text, nullable=False),
    Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE")),
    Column("group_id", Integer, ForeignKey("groups.id", ondelete="CASCADE")),
    Column("workspace_id", Integer, ForeignKey("workspaces.id", ondelete="CASCADE")),
    CheckConstraint("(user_id IS NULL) <> (group_id IS NULL)", name="holder"),
    Index(
        "role_assignment",
        text("coalesce(user_id, 0)"),
        text("coalesce(group_id, 0)"),
        text("coalesce(workspace_id, 0)"),
        "role",
        unique=True,
    ),
    Index("role_assignments_by_workspace", "workspace_id"),
    Index("role_assignments_by_group", "group_id"),
    Index("role_assignments_by_user", "user_id"),
)
