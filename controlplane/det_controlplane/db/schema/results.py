"""Define the tables of results: metrics, checkpoints, models."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.db.schema.base import JSON, Time, enum, metadata

metrics = Table(
    "metrics",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE"), nullable=False),
    Column("run_id", Integer, nullable=False),
    Column("metric_group", Text, nullable=False),
    Column("total_batches", Integer),
    Column("metrics", JSON, nullable=False),  # averages
    Column("batch_metrics", JSON),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    Column("reported_at", Time, nullable=False),
    Index(
        "one_report_a_step",
        "trial_id",
        "metric_group",
        "total_batches",
        unique=True,
        postgresql_where=text("NOT archived AND total_batches IS NOT NULL"),
    ),
    # For deletions of trials, which look for all rows.
    Index("metrics_by_trial", "trial_id"),
)

# Slow ranks, as the chief of a trial reports them: when a rank becomes slow, while it stays slow, and when it recovers.
stragglers = Table(
    "stragglers",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE"), nullable=False),
    Column("allocation_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),  # no foreign key: agents are deleted earlier
    Column("rank", Integer, nullable=False),
    Column("slowdown", Double, nullable=False),
    Column("own_s", Double, nullable=False),
    Column("median_s", Double, nullable=False),
    Column("cause", Text, nullable=False),
    Column("steps_completed", Integer, nullable=False),
    Column("recovered", Boolean, nullable=False),
    Column("reported_at", Time, nullable=False),
    Index("stragglers_by_allocation", "allocation_id", "rank", "id"),
    Index("stragglers_by_trial", "trial_id"),
    Index("stragglers_by_agent", "agent_id", "reported_at"),
)

# One document an experiment: a report checks its names against all of them at once.
metric_names = Table(
    "metric_names",
    metadata,
    Column(
        "experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("names", JSON, nullable=False, server_default=text("'{}'")),  # group: name: type
)

# The names that tables and filters of a project offer: one row for each name and JSON type. Triggers of `trials`,
# `metric_names` and `experiments` add rows. Rows stay when the experiments that reported a name are deleted.
offered_names = Table(
    "offered_names",
    metadata,
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", Text, primary_key=True),  # hparam, metadata, metric
    Column("path", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    # How many names the smallest document with this name has: reports with thousands of names come last.
    Column("smallest", Integer, nullable=False),
    Index("offered_names_in_order", "kind", "project_id", "smallest", "path"),
)

refused_metrics = Table(
    "refused_metrics",
    metadata,
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE"), primary_key=True),
    Column("reports", BigInteger, nullable=False),
)

storages = Table(
    "storages",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("config", JSON, nullable=False),
    # Secrets of the configuration, encrypted; '': none, NULL: not separated yet.
    Column("sealed", Text),
    Column("fingerprint", Text, nullable=False, server_default=text("''")),  # of its secrets
    # The user who first used the storage. There is no foreign key: 0 stands for an unknown user.
    Column("user_id", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("config", "fingerprint", "user_id"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("uuid", Uuid, primary_key=True),
    Column("task_id", Text, ForeignKey("tasks.id", ondelete="CASCADE")),
    Column("allocation_id", Text),  # no foreign key: as the task reported it
    Column("storage_id", Integer, ForeignKey("storages.id")),  # storages are never deleted
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE")),
    Column("experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE")),
    Column("state", enum(CheckpointState), nullable=False),
    Column("steps_completed", Integer, nullable=False, server_default=text("0")),
    Column("resources", JSON, nullable=False, server_default=text("'{}'")),
    Column("metadata", JSON, nullable=False, server_default=text("'{}'")),
    Column("size", BigInteger, nullable=False, server_default=text("0")),
    Column("reported_at", Time, nullable=False),
    # When its files were last looked for in the storage, and how often in a row none were there.
    Column("files_looked_at", Time),
    Column("looks_without_files", SmallInteger, nullable=False, server_default=text("0")),
    Index("checkpoints_by_trial", "trial_id", "steps_completed"),
    Index("checkpoints_by_experiment", "experiment_id"),
    Index("checkpoints_by_task", "task_id"),
    Index(
        "checkpoints_to_look_for",
        text("coalesce(files_looked_at, '-infinity'::timestamptz)"),
        "uuid",
        postgresql_where=text("state IN ('COMPLETED', 'PARTIALLY_DELETED') AND size > 0"),
    ),
)

# Values of ended trials by the names of their columns in tables of runs; `trials.has_values` says which trials have them.
value_names = Table(
    "value_names",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)

run_values = Table(
    "run_values",
    metadata,
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE"), primary_key=True),
    Column("name_id", Integer, primary_key=True),  # no foreign key: names are never deleted
    Column("experiment_id", Integer, nullable=False),  # no foreign key: the trial has it
    Column("number", Double),
    Column("text", Text),  # of a value that is not a number
    *(
        Index(
            f"run_values_by_{column}",
            "name_id",
            column,
            "trial_id",
            postgresql_include=["experiment_id"],
            postgresql_where=text(f"{column} IS NOT NULL"),
        )
        for column in ("number", "text")
    ),
)

# Triggers keep these numbers of an experiment.
checkpoint_counts = Table(
    "checkpoint_counts",
    metadata,
    Column(
        "experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("complete", Integer, nullable=False, server_default=text("0")),
    # Bytes of complete and partially deleted checkpoints.
    Column("size", BigInteger, nullable=False, server_default=text("0")),
    Index("checkpoint_counts_by_complete", "complete", "experiment_id"),
    Index("checkpoint_counts_by_size", "size", "experiment_id"),
)

models = Table(
    "models",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("metadata", JSON, nullable=False, server_default=text("'{}'")),
    Column("labels", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("notes", Text, nullable=False, server_default=text("''")),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("workspace_id", Integer, ForeignKey("workspaces.id"), nullable=False),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
)

model_versions = Table(
    "model_versions",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("model_id", Integer, ForeignKey("models.id", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("checkpoint_uuid", Uuid, ForeignKey("checkpoints.uuid"), nullable=False),
    Column("name", Text, nullable=False, server_default=text("''")),
    Column("comment", Text, nullable=False, server_default=text("''")),
    Column("notes", Text, nullable=False, server_default=text("''")),
    Column("metadata", JSON, nullable=False, server_default=text("'{}'")),
    Column("labels", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    UniqueConstraint("model_id", "version"),
    Index("model_versions_by_checkpoint", "checkpoint_uuid"),
)
