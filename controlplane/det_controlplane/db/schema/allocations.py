"""Tasks, the slots they ask for, and the agents that have them."""

from sqlalchemy import (
    ARRAY,
    DDL,
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    event,
    text,
)

from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.core.lifecycle.allocation import (
    AllocationState,
    ContainerState,
    ExitKind,
    Failure,
)
from det_controlplane.core.lifecycle.task import GenericTaskState, TaskKind
from det_controlplane.core.provision.model import ProvisionCode
from det_controlplane.core.schedule.model import WaitCode
from det_controlplane.db.schema.base import JSON, Time, enum, metadata
from det_controlplane.db.schema.enums import DeviceType

tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", enum(TaskKind), nullable=False),
    Column("job_id", Uuid, ForeignKey("jobs.id"), nullable=False),
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE")),
    Column("experiment_id", Integer, ForeignKey("experiments.id", ondelete="CASCADE")),
    Column("context_id", Uuid, ForeignKey("contexts.id")),
    Column("config", JSON),
    # Secrets of the configuration, encrypted; '': none, NULL: not separated yet.
    Column("sealed", Text),
    Column("started_at", Time, nullable=False),
    Column("ended_at", Time),
    # Where requests are not held: until then lines of its log are wanted at once.
    Column("logs_followed_until", Time),
    # Its ports behind /proxy/, the first being the one without a number: [{port, tcp, unauthenticated, id}].
    Column("proxies", JSON, nullable=False, server_default=text("'[]'")),
    # When traffic last went to one of them; written at most every few seconds.
    Column("proxied_at", Time),
    Column("exit_status", Text),  # a sentence about the end of a task other than a trial
    Column(
        "outcome", Text
    ),  # of the same: COMPLETED, CANCELED or ERROR; NULL: it ended before this column
    # "sha256:" and the hash of the token that opens the task's ports. Earlier rows have a part of the token.
    Column("access_key", Text),
    Column("idle_timeout_s", Double),  # without traffic and without work it ends after that time
    Column("active_at", Time),  # the last time at which its program reported activity
    # Generic tasks form trees. There are no foreign keys within a tree, because it may outlive its first task.
    Column("state", enum(GenericTaskState)),
    Column("parent_id", Text),
    Column("forked_from", Text),
    Column("no_pause", Boolean, nullable=False, server_default=text("false")),
    Column("project_id", Integer, ForeignKey("projects.id", ondelete="SET NULL")),
    # The key that repeated launch requests share.
    Column("idempotency_key", Text),
    CheckConstraint("(state IS NULL) OR (kind = 'GENERIC'::task_kind)", name="state"),
    Index("tasks_unsealed", "id", postgresql_where=text("config IS NOT NULL AND sealed IS NULL")),
    Index("tasks_by_trial", "trial_id"),
    Index("tasks_by_job", "job_id"),
    Index("tasks_by_experiment", "experiment_id"),
    Index("tasks_by_context", "context_id", postgresql_where=text("context_id IS NOT NULL")),
    Index("tasks_by_parent", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
    Index("tasks_by_project", "project_id", postgresql_where=text("project_id IS NOT NULL")),
    Index(
        "tasks_by_idempotency_key",
        "idempotency_key",
        unique=True,
        postgresql_where=text("idempotency_key IS NOT NULL"),
    ),
    Index("tasks_by_kind", "kind", "started_at", postgresql_where=text("trial_id IS NULL")),
    Index(
        "tasks_that_idle",
        "id",
        postgresql_where=text("idle_timeout_s IS NOT NULL AND ended_at IS NULL"),
    ),
)

# A request for slots, and later their holder.
allocations = Table(
    "allocations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("task_id", Text, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("trial_id", Integer, ForeignKey("trials.id", ondelete="CASCADE")),
    Column("job_id", Uuid, ForeignKey("jobs.id"), nullable=False),
    Column("run_id", Integer, nullable=False),
    Column("pool", Text, nullable=False),
    # That it holds; that it asks for while it is queued.
    Column("slots", Integer, nullable=False),
    # The bounds of an elastic gang, which gets what fits; NULL for others.
    Column("min_slots", Integer),
    Column("max_slots", Integer),
    # The rented machines that the decision about a deadline allows: spot, on-demand or none. NULL: any.
    Column("capacity", Text),
    # After a rank of an elastic gang failed: until then the agents of its other ranks have to poll.
    Column("poll_by", Time),
    Column("state", enum(AllocationState), nullable=False),
    # Raised at each placement; a container with another is stale.
    Column("epoch", Integer, nullable=False, server_default=text("0")),
    Column("preemptible", Boolean, nullable=False),
    Column("single_agent", Boolean, nullable=False, server_default=text("false")),
    # It waits for the best links between its slots that a machine can offer.
    Column("strict_topology", Boolean, nullable=False, server_default=text("false")),
    # The sources of its data sets, and the agents that held them when it was placed.
    Column("data_sets", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("data_reason", Text, nullable=False, server_default=text("''")),
    Column("data_s", Double),  # how long its slowest agent loaded them before the start
    Column("preempt_timeout_s", Integer, nullable=False, server_default=text("3600")),
    Column("backfilled", Boolean, nullable=False, server_default=text("false")),
    Column("ready", Boolean, nullable=False, server_default=text("false")),  # rendezvous complete
    Column("preempt_at", Time),  # asked to checkpoint and stop
    Column("preempt_reason", Text),
    Column("preempt_acked", Boolean, nullable=False, server_default=text("false")),
    Column("kill_at", Time),  # due time of the kill; the deadline of a preemption, or at once
    # Containers are desired dead.
    Column("killed", Boolean, nullable=False, server_default=text("false")),
    # Killed while no container had exited.
    Column("kill_before_exit", Boolean, nullable=False, server_default=text("false")),
    Column("wait_code", enum(WaitCode)),  # why it waits, written by the scheduler
    Column("wait_reason", Text),  # of this allocation alone; otherwise it refers to a common one
    Column("wait_reason_id", BigInteger),  # a row of wait_reasons, which may be gone already
    Column("wait_since", Time),
    # The provisioner's reason why there is no machine yet, and the time of the next attempt.
    Column("machine_code", enum(ProvisionCode)),
    Column("machine_reason", Text),
    Column("machine_next_try", Time),
    Column("ports", JSON, nullable=False, server_default=text("'{}'")),
    Column("token_expires_at", Time),
    Column("requested_at", Time, nullable=False),
    Column("assigned_at", Time),
    Column("pull_started_at", Time),
    Column("pull_ended_at", Time),
    Column("started_at", Time),
    Column("workspace_name", Text),  # the name at its start, for usage reports
    Column("ended_at", Time),
    Column("exit_kind", enum(ExitKind, unused=["unrecoverable"])),
    Column("exit_reason", Text),  # a sentence
    # It ended because of its image.
    Column("pull_failed", Boolean, nullable=False, server_default=text("false")),
    Column("exit_code", Integer),
    # The containers of one allocation prove to each other that they belong together. Their tokens differ; this key is
    # the same.
    Column(
        "peer_key",
        Text,
        nullable=False,
        server_default=text(
            "replace(((gen_random_uuid())::text || (gen_random_uuid())::text), '-'::text, ''::text)"
        ),
    ),
    # A run that infrastructure ended before it was ready is tried again later and later.
    Column("setback", Boolean, nullable=False, server_default=text("false")),
    Column("not_before", Time),  # queued, and not looked at before that time
    # The checkpoint that a trial's run starts from, and its step. Fixed when the first specification is sent to an agent:
    # reports of earlier runs count up to this step.
    Column("start_checkpoint", Uuid),
    Column("start_steps", Integer),
    # The last progress of any rank, which containers report if the trial has a hang_timeout. A run is hung if it was
    # ended for missing progress.
    Column("progress_at", Time),
    Column("hung", Boolean, nullable=False, server_default=text("false")),
    # How long a revived run over several agents waits for agents that have not joined again.
    Column("awaited_until", Time),
    CheckConstraint("slots >= 0", name="slots"),
    CheckConstraint("(ended_at IS NOT NULL) = (state = 'TERMINATED')", name="ended"),
    # A task has at most one live allocation, so its work never runs twice.
    Index(
        "one_live_allocation",
        "task_id",
        unique=True,
        postgresql_where=text("state <> 'TERMINATED'"),
    ),
    Index("allocations_live", "pool", "state", postgresql_where=text("state <> 'TERMINATED'")),
    Index(
        "allocations_due",
        "kill_at",
        postgresql_where=text("state <> 'TERMINATED' AND kill_at IS NOT NULL"),
    ),
    Index("allocations_by_trial", "trial_id"),
    Index("allocations_by_job", "job_id"),
    Index("allocations_by_task", "task_id"),
    # How long allocations of the last weeks were queued.
    Index(
        "allocations_by_assignment",
        "pool",
        "assigned_at",
        postgresql_include=["requested_at"],
        postgresql_where=text("assigned_at IS NOT NULL"),
    ),
    # Reports of usage read allocations by time.
    Index("allocations_by_end", "ended_at", postgresql_where=text("started_at IS NOT NULL")),
    Index(
        "allocations_not_before",
        "not_before",
        postgresql_where=text("not_before IS NOT NULL AND state = 'QUEUED'"),
    ),
)

# A pass of the scheduler writes them: one for all allocations of a pool that wait for the same reason.
wait_reasons = Table(
    "wait_reasons",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("pool", Text, nullable=False),
    Column("code", enum(WaitCode), nullable=False),
    Column("sentence", Text, nullable=False),
    Index("wait_reasons_by_pool", "pool"),
)

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("state", enum(AgentState), nullable=False),
    Column("agent_key_hash", LargeBinary, nullable=False),
    Column("incarnation", Uuid, nullable=False),
    Column("token_hash", LargeBinary, nullable=False, unique=True),
    # The versions of the interface and of the agent.
    Column("version", Text, nullable=False, server_default=text("''")),
    Column("product_version", Text, nullable=False, server_default=text("''")),
    Column("hostname", Text, nullable=False, server_default=text("''")),
    Column("runtime", Text, nullable=False, server_default=text("''")),
    Column("addresses", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    # The links between its GPUs: [[slot, slot, kind]], by the names of `nvidia-smi topo -m`.
    Column("links", JSON, nullable=False, server_default=text("'[]'")),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    Column("joined_at", Time, nullable=False),
    Column("last_seen_at", Time, nullable=False),
    Column("lease_until", Time, nullable=False),
    Column("lost_after", Time, nullable=False),  # when a suspect agent is given up
    # Polls of one agent process are numbered: only the newest may say that a container is no longer there.
    Column("poll_seq", BigInteger, nullable=False, server_default=text("0")),
    # The machine goes away (a spot notice, a shutdown); set by signals, cleared when the agent joins again.
    Column("leaving", Boolean, nullable=False, server_default=text("false")),
    # Why the agent itself takes no work, empty while it does.
    Column("out_of_service", Text, nullable=False, server_default=text("''")),
    # When a poll said last that log lines wait on the agent's disk.
    Column("unsent_at", Time),
    # How often the relay missed this agent. Another number makes the agent connect to the relay again.
    Column("relay_dials", Integer, nullable=False, server_default=text("0")),
    # The pool that an administrator chose, and the agent's own option at that time. Another option replaces the choice.
    Column("chosen_pool", Text),
    Column("option_pool", Text),
    # The pool to which the agent moves when its work has ended; until then it takes no new work.
    Column("moves_to", Text),
    Index("agents_by_pool", "pool", postgresql_where=text("state <> 'LOST'")),
)

# Each poll updates its agent. Room in each page lets new versions stay there, without entries in the indexes: with an old
# snapshot open, 10 polls of 200 agents made the next ones read 58 blocks each, and now 19.
event.listen(
    agents,
    "after_create",
    DDL(
        "ALTER TABLE agents SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)"
    ),  # type: ignore[no-untyped-call]
)

# The data sets that agents hold on their disks. Agents report changes.
data_caches = Table(
    "data_caches",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("used_bytes", BigInteger, nullable=False),
    # [{source, bytes, total, in_use}], the last used first.
    Column("sets", JSON, nullable=False),
)

containers = Table(
    "containers",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("allocation_id", Text, ForeignKey("allocations.id", ondelete="CASCADE"), nullable=False),
    # There is no foreign key, because containers are kept longer than agents.
    Column("agent_id", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("slot_ids", ARRAY(Integer), nullable=False),
    Column("state", enum(ContainerState), nullable=False),
    Column("daemon", Boolean, nullable=False, server_default=text("false")),
    Column("address", Text),
    Column("host_ports", JSON, nullable=False, server_default=text("'{}'")),
    Column("runtime_id", Text),
    Column("rendezvous_at", Time),
    Column("exit_code", Integer),
    Column("failure", enum(Failure)),
    Column("message", Text),
    Column("assigned_at", Time, nullable=False),
    Column("started_at", Time),
    Column("ended_at", Time),
    UniqueConstraint("allocation_id", "epoch", "rank"),
    CheckConstraint("(ended_at IS NOT NULL) = (state = 'TERMINATED')", name="ended"),
    Index("containers_live", "agent_id", postgresql_where=text("state <> 'TERMINATED'")),
    Index("containers_by_allocation", "allocation_id"),
    Index("containers_by_agent_end", "agent_id", "ended_at"),
)

# The resources that containers used, as their agents measure them. Samples of the last day cover a minute, or less at the
# start of a container. A tick merges older ones to `coarse` samples of ten minutes (docs/guides/tasks.md#resources).
resource_samples = Table(
    "resource_samples",
    metadata,
    Column("container_id", Uuid, ForeignKey("containers.id", ondelete="CASCADE"), primary_key=True),
    Column("started_at", Time, primary_key=True),  # by the agent's clock
    Column("seconds", REAL, nullable=False),
    Column("cpu", REAL),  # cores
    Column("cpu_limit", REAL),
    Column("memory", REAL),  # bytes, the largest value
    Column("memory_limit", REAL),
    Column("disk_read", REAL),  # bytes per second, as the following
    Column("disk_write", REAL),
    Column("net_received", REAL),
    Column("net_sent", REAL),
    # [[slot, percentage of time in use, largest bytes of memory, bytes that it has]]
    Column("gpus", JSON),
    Column("coarse", Boolean, nullable=False, server_default=text("false")),
    Index("resource_samples_by_age", "coarse", "started_at"),
)

# A slot is held by one live container at most: the primary key and the reference say so together.
slots = Table(
    "slots",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("slot_id", Integer, primary_key=True),
    Column("device_type", enum(DeviceType), nullable=False),
    Column("device_uuid", Text, nullable=False, server_default=text("''")),
    Column("device_brand", Text, nullable=False, server_default=text("''")),
    Column("numa_node", Integer),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
    Column("container_id", Uuid, ForeignKey("containers.id", ondelete="SET NULL")),
    Index("slots_by_container", "container_id", postgresql_where=text("container_id IS NOT NULL")),
)

# Gathering data of all peers of an allocation.
gathers = Table(
    "gathers",
    metadata,
    Column(
        "allocation_id", Text, ForeignKey("allocations.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("request_uuid", Text, primary_key=True),
    Column("payload", JSON, nullable=False),
    # Peers gather again and again: as many requests as there are peers, in the order they came, make a round.
    Column("round", Integer, nullable=False, server_default=text("0")),
)

task_logs = Table(
    "task_logs",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    # No foreign keys: thousands of lines a second, which are kept and deleted on their own.
    Column("task_id", Text, nullable=False),
    Column("allocation_id", Text),
    Column("agent_id", Text),
    Column("container_id", Text),
    Column("rank_id", Integer),
    Column("logged_at", Time, nullable=False),
    Column("level", Text),
    Column("source", Text),
    Column("stdtype", Text),
    Column("log", Text, nullable=False),
    Index("task_logs_in_order", "task_id", "id"),
)

# The times of a task's lines with ids that begin with the same bits. A trigger of task_logs adds a row for each new
# line that no row covers. Rows may overlap. Rows of deleted lines stay until the last line of the task is deleted. Like
# lines, they have no foreign key.
task_log_spans = Table(
    "task_log_spans",
    metadata,
    Column("task_id", Text, nullable=False),
    Column("span", BigInteger, nullable=False),  # task_logs.id >> 16
    Column("first_at", Time, nullable=False),
    Column("last_at", Time, nullable=False),
    Index("task_log_spans_of_task", "task_id", "span"),
)

# Batches that were stored, so that repeating one is harmless.
log_batches = Table(
    "log_batches",
    metadata,
    Column("batch_id", Uuid, primary_key=True),
    Column("stored_at", Time, nullable=False),
    Index("log_batches_by_time", "stored_at"),
)

# The starts of runs that the collector of traces has accepted.
traced_starts = Table(
    "traced_starts",
    metadata,
    Column(
        "allocation_id", Text, ForeignKey("allocations.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("sent_at", Time, nullable=False),
)

# The fields of deleted allocations that usage reports need.
deleted_allocations = Table(
    "deleted_allocations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("task_kind", enum(TaskKind), nullable=False),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("workspace_name", Text, nullable=False),
    Column("experiment_id", Integer),  # no foreign key: it is gone
    Column("labels", ARRAY(Text), nullable=False),
    Column("slots", Integer, nullable=False),
    Column("pool", Text, nullable=False),
    Column("started_at", Time, nullable=False),
    Column("ended_at", Time, nullable=False),
    Column("pull_s", Double, nullable=False),
    Index("deleted_allocations_by_end", "ended_at"),
)

# The fields of deleted containers on rented machines that costs need. Only the user has a foreign key, because the
# other rows are deleted.
deleted_containers = Table(
    "deleted_containers",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("allocation_id", Text, nullable=False),
    Column("trial_id", Integer),
    Column("experiment_id", Integer),
    Column("user_id", Integer, ForeignKey("users.id"), nullable=False),
    Column("workspace_id", Integer, nullable=False),  # as it was at the end
    Column("labels", ARRAY(Text), nullable=False),
    Column("task_kind", enum(TaskKind), nullable=False),
    Column("allocation_slots", Integer, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("slots", Integer, nullable=False),  # that this container held
    Column("assigned_at", Time, nullable=False),
    Column("ended_at", Time, nullable=False),
    Index("deleted_containers_by_agent", "agent_id"),
)
