"""Define the tables of the cluster as a whole: its identity, message and log, marks of pools, the outbox, and the audit log."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Double,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    text,
)

from det_controlplane.db.schema.base import JSON, Time, enum, metadata
from det_controlplane.db.schema.enums import EffectKind, LogLevel

# One row: the identity of the cluster. Tensorboard paths contain it, so it never changes.
cluster = Table(
    "cluster",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("cluster_id", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
    Column("created_at", Time, nullable=False, server_default=text("now()")),
    # Operators may change how much of the log is kept, for every process at once.
    Column("log_level", enum(LogLevel)),
    Column("log_color", Boolean),
    # When old logs were last deleted: work that follows other work, so that an idle cluster does none.
    Column("cleaned_at", Time),
    # Whether schedules call the control plane, where a cloud has them.
    Column("ticking", Boolean, nullable=False, server_default=text("true")),
    # The time of the last tick, the end of the last interruption, and the time since which ticks have followed each other
    # closely (core/lifecycle/agent.py).
    Column("ticked_at", Time),
    Column("answering_since", Time),
    Column("watched_since", Time),
    # When a tick last sent a request to the public address of the API, and when such a request was last answered.
    Column("probed_at", Time),
    Column("reached_at", Time),
    # Counts changes of pools in the database, so that every process notices them.
    Column("pools_revision", BigInteger, nullable=False, server_default=text("0")),
    # Default pools that replace the ones of the configuration.
    Column("default_compute_pool", Text),
    Column("default_aux_pool", Text),
    CheckConstraint("only_row", name="only_row"),
)

cluster_message = Table(
    "cluster_message",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("message", Text, nullable=False),
    Column("starts_at", Time, nullable=False),
    Column("ends_at", Time),
    Column("created_at", Time, nullable=False),
    CheckConstraint("only_row", name="only_row"),
    CheckConstraint("length(message) <= 250", name="message"),
)

master_logs = Table(
    "master_logs",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("logged_at", Time, nullable=False, server_default=text("now()")),
    Column("level", Text, nullable=False),
    Column("message", Text, nullable=False),
    Index("master_logs_by_time", "logged_at"),
)

# Pools with queue changes since the last scheduling pass.
pools = Table(
    "pools",
    metadata,
    Column("name", Text, primary_key=True),
    # A pass clears the marks that it saw. If it dies, the pool stays marked.
    Column("marked", BigInteger, nullable=False, server_default=text("1")),
    Column("answered", BigInteger, nullable=False, server_default=text("0")),
    Column("dirty", Boolean, Computed("(marked > answered)", persisted=True), nullable=False),
    Column("scheduled_at", Time),
    Column("schedule_at", Time),  # the time of the next pass if nothing changes before
    Column(
        "provision_at", Time
    ),  # time of the next decision about its machines without further changes
    Column("resumed_at", Time),  # by an operator: machines asked for before count no longer
)

# Pools that choose the number of their warm machines: the measured starts, the last choice, and the cost of the day.
warm_pools = Table(
    "warm_pools",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("rates", JSON, nullable=False),  # lists: weekend, hour, slots, starts per hour
    Column("startup_h", Double, nullable=False),
    Column("measured_at", Time, nullable=False),
    Column("machines", Integer, nullable=False, server_default=text("0")),
    Column("sentence", Text, nullable=False, server_default=text("''")),
    Column("decided_at", Time, nullable=False),
    Column(
        "spent_usd", Double, nullable=False, server_default=text("0")
    ),  # on the day of `decided_at`, UTC
    Column("usd_hour", Double, nullable=False, server_default=text("0")),
)

# Effects that must happen after commit, at least once.
outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", enum(EffectKind), nullable=False),
    Column("payload", JSON, nullable=False),
    Column("due_at", Time, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("created_at", Time, nullable=False),
    Index("outbox_due", "due_at"),
)

# Triggers keep rows of the audit log from being changed, and from being deleted in their first 30 days.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", Time, nullable=False),
    # There are no foreign keys, because entries outlive their users and objects.
    Column("user_id", Integer, nullable=False),
    Column("username", Text, nullable=False),
    Column("via", Text, nullable=False),  # the kind of token: user, access, allocation; or sign-in
    Column("session_id", BigInteger),
    Column("task_id", Text),
    Column("address", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("details", JSON, nullable=False),
    Index("audit_log_by_time", "at"),
    Index("audit_log_by_object", "object"),
    Index("audit_log_by_user", "username", "id"),
    Index("audit_log_by_action", "action", "id", postgresql_ops={"action": "text_pattern_ops"}),
)
