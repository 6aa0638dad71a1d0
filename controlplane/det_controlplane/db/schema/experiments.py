"""Experiments, their searches and their trials."""

from sqlalchemy import (
    ARRAY,
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    event,
    func,
    text,
)

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.core.search.events import ExitReason
from det_controlplane.db.schema.base import (
    CREATE_TRIGRAMS,
    JSON,
    ORDERED_JSON,
    Time,
    enum,
    if_trigrams,
    metadata,
)
from det_controlplane.db.schema.enums import JobKind

# Model definitions: small ones inline, large ones in the object store.
contexts = Table(
    "contexts",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("content", LargeBinary),  # a tar.gz
    Column("object_key", Text),
    Column("uploaded", Boolean, nullable=False, server_default=text("false")),
    Column("user_id", Integer, ForeignKey("users.id", ondelete="SET NULL")),
    Column("created_at", Time, nullable=False),
    CheckConstraint("content IS NOT NULL OR object_key IS NOT NULL", name="content"),
    # The recent uploads of a user. Small archives are not counted, because they are as small as the rows that use them.
    Index(
        "contexts_sent", "user_id", "created_at",
        postgresql_include=["size"], postgresql_where=text("size > 16384"),
    ),
)  # fmt: skip

# An entry of the queue: an experiment, or another task.
jobs = Table(
    "jobs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("kind", enum(JobKind), nullable=False),
    Column("name", Text, nullable=False, server_default=text("''")),
    # The pool as configured. A pool has a row in `pools` after its first mark.
    Column("pool", Text, nullable=False),
    Column("priority", Integer),
    Column("weight", Double, nullable=False, server_default=text("1")),
    Column("max_slots", Integer),
    # Microseconds of submission unless moved ahead of or behind another.
    Column("position", Numeric, nullable=False),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column(
        "workspace_id", Integer, ForeignKey("workspaces.id", ondelete="CASCADE"), nullable=False
    ),
    Column("submitted_at", Time, nullable=False),
    # Set with its first queued allocation (by a trigger), and corrected by each scheduling pass of its pool.
    Column("in_queue", Boolean, nullable=False, server_default=text("false")),
    # Triggers copy these of the experiment or task, so that the list of all work reads one table. The state is NULL for
    # jobs that are not listed: deletions of checkpoints.
    Column("work_state", Text),
    Column("work_ended_at", Time),
    Column("work_archived", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("priority BETWEEN 1 AND 99", name="priority"),
    CheckConstraint("weight > 0", name="weight"),
    CheckConstraint("max_slots >= 0", name="max_slots"),
    Index("jobs_in_queue", "pool", "priority", "position", "id", postgresql_where=text("in_queue")),
    Index("jobs_by_workspace", "workspace_id"),
    Index("jobs_by_user", "user_id"),
    # Filters of the list of all work read this index alone.
    Index(
        "jobs_of_work",
        "submitted_at",
        "id",
        postgresql_include=[
            "kind",
            "work_state",
            "work_archived",
            "user_id",
            "workspace_id",
            "pool",
        ],
        postgresql_where=text("work_state IS NOT NULL"),
    ),
    Index(
        "jobs_by_work_end",
        text("work_ended_at DESC NULLS LAST"),
        text("submitted_at DESC"),
        postgresql_where=text("work_state IS NOT NULL"),
    ),
    Index(
        "jobs_by_work_name", "name", "submitted_at", postgresql_where=text("work_state IS NOT NULL")
    ),
)
event.listen(jobs, "before_create", DDL(CREATE_TRIGRAMS.replace("%", "%%")))  # type: ignore[no-untyped-call]
Index(
    "jobs_by_lowered_name",
    func.lower(jobs.c.name).label("lowered"),
    postgresql_using="gin",
    postgresql_ops={"lowered": "gin_trgm_ops"},
).ddl_if(callable_=if_trigrams)

experiments = Table(
    "experiments",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("job_id", Uuid, ForeignKey("jobs.id"), nullable=False, unique=True),
    Column("state", enum(ExperimentState), nullable=False),
    Column("config", ORDERED_JSON, nullable=False),
    Column("original_config", Text, nullable=False),
    # Secrets of the configuration, encrypted; '': none, NULL: not separated yet.
    Column("sealed", Text),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=text("''")),
    Column("notes", Text, nullable=False, server_default=text("''")),
    Column("labels", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("project_id", Integer, ForeignKey("projects.id"), nullable=False),
    Column("context_id", Uuid, ForeignKey("contexts.id")),
    Column("parent_id", Integer, ForeignKey("experiments.id", ondelete="SET NULL")),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    Column("unmanaged", Boolean, nullable=False, server_default=text("false")),
    Column("external_id", Text, unique=True),
    Column("progress", Double),
    Column("best_trial_id", Integer),  # no foreign key: a trial goes with its experiment only
    Column("best_metric", Double),  # as reported, not signed
    Column("seed", BigInteger, nullable=False),
    Column("error", Text, nullable=False, server_default=text("''")),
    Column("idempotency_key", Text, unique=True),
    Column("log_retention_days", Integer),
    Column("created_at", Time, nullable=False),
    Column("started_at", Time, nullable=False),
    Column("ended_at", Time),
    # Fields of the configuration that every validation report needs, so that reports do not parse it.
    Column(
        "metric_name",
        Text,
        Computed("COALESCE((config #>> '{searcher,metric}'::text[]), ''::text)", persisted=True),
        nullable=False,
    ),
    Column(
        "smaller_is_better",
        Boolean,
        Computed(
            "COALESCE(((config #>> '{searcher,smaller_is_better}'::text[]))::boolean, true)",
            persisted=True,
        ),
        nullable=False,
    ),
    Column(
        "max_restarts",
        Integer,
        Computed("COALESCE(((config ->> 'max_restarts'::text))::integer, 5)", persisted=True),
        nullable=False,
    ),
    Column(
        "slots_per_trial",
        Integer,
        Computed(
            "COALESCE(((config #>> '{resources,slots_per_trial}'::text[]))::integer, 1)",
            persisted=True,
        ),
        nullable=False,
    ),
    # Fields of the configuration that lists show. Reading them from 100 configurations would take a fifth of a list's
    # time.
    Column("searcher_name", Text, Computed("config #>> '{searcher,name}'::text[]", persisted=True)),
    Column(
        "hyperparameters",
        ORDERED_JSON,
        Computed("config -> 'hyperparameters'::text", persisted=True),
    ),
    Column(
        "pachyderm",
        ORDERED_JSON,
        Computed("config #> '{integrations,pachyderm}'::text[]", persisted=True),
    ),
    CheckConstraint(
        "(ended_at IS NOT NULL) = (state IN ('COMPLETED', 'CANCELED', 'ERROR', 'DELETING', 'DELETE_FAILED'))",
        name="ended",
    ),
    # Counts of lists read this index alone: rows are wide with their configurations.
    Index(
        "experiments_counted",
        "id",
        postgresql_include=["archived", "project_id", "user_id", "state", "job_id"],
    ),
    Index("experiments_by_start", "started_at", "id"),
    Index("experiments_by_state", "state", "id"),
    Index("experiments_by_label", "labels", postgresql_using="gin"),
    # One scan counts the experiments of a project and finds the last start.
    Index(
        "experiments_of_project",
        "project_id",
        "id",
        postgresql_include=["state", "started_at"],
    ),
    Index("experiments_by_user", "user_id", "id"),
    Index(
        "experiments_live",
        "id",
        postgresql_where=text(
            "state IN ('ACTIVE', 'PAUSED', 'STOPPING_COMPLETED', 'STOPPING_CANCELED', 'STOPPING_KILLED', 'STOPPING_ERROR')"
        ),
    ),
    Index("experiments_by_context", "context_id"),
    # For deletions of parents.
    Index("experiments_by_parent", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
    Index("experiments_unsealed", "id", postgresql_where=text("sealed IS NULL")),
)
event.listen(experiments, "before_create", DDL(CREATE_TRIGRAMS.replace("%", "%%")))  # type: ignore[no-untyped-call]
Index(
    "experiments_by_name",
    func.lower(experiments.c.name).label("lowered"),
    postgresql_using="gin",
    postgresql_ops={"lowered": "gin_trgm_ops"},
).ddl_if(callable_=if_trigrams)
# Rows of usual length stay as they are, though a configuration is a little longer than what PostgreSQL compresses by
# itself: a list of 100 takes 2.3 instead of 2.9 ms of its CPU. Tables take options from SQLAlchemy 2.1 on only.
event.listen(
    experiments,
    "after_create",
    DDL("ALTER TABLE experiments SET (toast_tuple_target = 8160)"),  # type: ignore[no-untyped-call]
)

# Experiments with a deadline, and the last decision of the provisioner about each.
deadlines = Table(
    "deadlines",
    metadata,
    Column(
        "experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("deadline", Time, nullable=False),
    Column("expected_h", Double),  # the user's estimate of the whole work
    Column("sentence", Text, nullable=False, server_default=text("''")),
    # Unused since `state`.
    Column("in_danger", Boolean, nullable=False, server_default=text("false")),
    Column("decided_at", Time),
    Column("way", Text),  # WAIT, SPOT or ON_DEMAND; NULL: any machine
    Column("state", Text, nullable=False, server_default=text("'ON_TRACK'")),
    Column("end_at", Time),  # predicted
    Column("probability", Double),  # of an end in time
)

# The search of an experiment is a fold over its events; `seq` is how many there are and guards every append.
searches = Table(
    "searches",
    metadata,
    Column(
        "experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("seq", BigInteger, nullable=False, server_default=text("0")),
    Column("snapshot_seq", BigInteger, nullable=False, server_default=text("0")),
    Column("snapshot", ORDERED_JSON),
    Column("closed", Boolean, nullable=False, server_default=text("false")),
    # From the configuration: a search with a higher cost ends.
    Column("cost_limit_usd", Double),
    CheckConstraint("snapshot_seq <= seq", name="snapshot_seq"),
)

search_events = Table(
    "search_events",
    metadata,
    Column(
        "experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("seq", BigInteger, primary_key=True),
    Column("event", JSON, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column(
        "experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE"), nullable=False
    ),
    Column("request_id", Uuid, nullable=False),
    Column("external_id", Text),
    Column("state", enum(TrialState), nullable=False),
    Column("hparams", ORDERED_JSON, nullable=False),
    Column("seed", BigInteger, nullable=False),
    # How many allocations it has had; the current one's number.
    Column("run_id", Integer, nullable=False, server_default=text("0")),
    # Failures of user code only.
    Column("restarts", Integer, nullable=False, server_default=text("0")),
    Column("early_exit", enum(ExitReason)),  # as the user's code reported
    # Waits at a rung to be promoted.
    Column("parked", Boolean, nullable=False, server_default=text("false")),
    # The searcher has stopped it.
    Column("stop_requested", Boolean, nullable=False, server_default=text("false")),
    # The searcher stopped it before its whole training, because other trials are better.
    Column("stopped_early", Boolean, nullable=False, server_default=text("false")),
    Column("train_to", Double),  # promotion form: length of the current operation
    Column("op_completed", Boolean, nullable=False, server_default=text("false")),
    Column("total_batches", Integer, nullable=False, server_default=text("0")),
    Column("progress", Double),
    Column("runner_state", Text, nullable=False, server_default=text("''")),
    Column("searcher_metric", Double),  # best, as reported
    # No foreign keys, here and to the task: these rows go with the trial only, and point at it.
    Column("best_validation_id", BigInteger),
    Column("latest_validation_id", BigInteger),
    Column("summary_metrics", JSON, nullable=False, server_default=text("'{}'")),
    Column("metadata", JSON),
    Column("archived", Boolean, nullable=False, server_default=text("false")),
    Column("task_id", Text, nullable=False, unique=True),
    # No foreign key: the checkpoint may be deleted, or never have been here.
    Column("warm_start_uuid", Uuid),
    Column("log_policy_matched", Text),
    Column("blocked_agents", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("log_retention_days", Integer),
    Column("heartbeat_at", Time),  # unmanaged trials
    Column("started_at", Time, nullable=False),
    Column("ended_at", Time),
    # A run of a parked trial may end without closing the trial, even if the trial is promoted while the run ends.
    Column("rested_run", Integer),
    # Whether `run_values` has its values. NULL: it has not ended, or no tick has copied them; false: there are too many.
    Column("has_values", Boolean),
    UniqueConstraint("experiment_id", "request_id"),
    CheckConstraint(
        "(ended_at IS NOT NULL) = (state IN ('COMPLETED', 'CANCELED', 'ERROR'))", name="ended"
    ),
    # Counts of runs read this index alone.
    Index("trials_listed", "experiment_id", "id", postgresql_include=["archived"]),
    Index(
        "trials_without_values",
        "experiment_id",
        "id",
        postgresql_where=text("has_values IS NOT TRUE"),
    ),
    Index(
        "trials_awaiting_values",
        "id",
        postgresql_where=text("has_values IS NULL AND ended_at IS NOT NULL"),
    ),
    Index("trials_live", "experiment_id", postgresql_where=text("ended_at IS NULL")),
    # A scheduling pass reads them beside thousands of trials that may run anywhere.
    Index(
        "trials_with_blocked_agents",
        "id",
        postgresql_where=text("blocked_agents <> '{}' AND ended_at IS NULL"),
    ),
    # Managed trials have no external id: an index over all of them only tempts the planner away from the request id.
    Index(
        "trial_external_id",
        "experiment_id",
        "external_id",
        unique=True,
        postgresql_where=text("external_id IS NOT NULL"),
    ),
    # Every tick asks for the unmanaged trial that has been silent for longest.
    Index(
        "trials_by_heartbeat",
        "heartbeat_at",
        postgresql_where=text("heartbeat_at IS NOT NULL AND ended_at IS NULL"),
    ),
)

# Triggers keep these numbers. Trials are added and deleted under the lock of their experiment; checkpoints are not, so
# that their numbers are rows of another table.
trial_counts = Table(
    "trial_counts",
    metadata,
    Column(
        "experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("project_id", Integer, nullable=False),  # of the experiment
    Column("trials", Integer, nullable=False, server_default=text("0")),
    Index("trial_counts_in_order", "trials", "experiment_id"),
    Index("trial_counts_by_project", "project_id", postgresql_include=["trials"]),
)

trial_sources = Table(
    "trial_sources",
    metadata,
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "checkpoint_uuid",
        Uuid,
        ForeignKey("checkpoints.uuid", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("model_id", Integer),  # no foreign keys: as the trial reported them
    Column("model_version", Integer),
    Column("kind", Text, nullable=False),
    Index("trial_sources_by_checkpoint", "checkpoint_uuid"),
)

# The submissions of experiments while telemetry is on.
experiment_traces = Table(
    "experiment_traces",
    metadata,
    Column(
        "experiment_id",
        Integer,
        ForeignKey("experiments.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("traceparent", Text),  # of the caller, as of a CI pipeline
    Column("received_at", Time, nullable=False),
)
