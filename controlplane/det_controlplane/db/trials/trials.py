"""Rows of trials and tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import text

from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db import schema
from det_controlplane.db.checkpoints.checkpoints import NEWEST_CHECKPOINT
from det_controlplane.db.engine.database import Database, Tx, as_ordered_json
from det_controlplane.db.scheduling.allocations import NO_DELAY, Delay
from det_controlplane.db.tasks import proxies


@dataclass(slots=True)
class TrialRow:
    id: int
    experiment_id: int
    request_id: UUID
    state: TrialState
    task_id: str
    run_id: int
    restarts: int
    early_exit: str | None
    parked: bool
    stop_requested: bool
    stopped_early: bool
    seed: int
    blocked_agents: list[str]
    log_policy_matched: str | None


# The columns of `TrialRow`, from trials t.
COLUMNS = """t.id, t.experiment_id, t.request_id, t.state::text, t.task_id, t.run_id, t.restarts, t.early_exit, t.parked,
    t.stop_requested, t.stopped_early, t.seed, t.blocked_agents, t.log_policy_matched"""
_BY_ID = text(f"SELECT {COLUMNS} FROM trials t WHERE id = :id")
_BY_REQUESTS = text(f"""
    SELECT {COLUMNS} FROM trials t
    WHERE experiment_id = :experiment_id AND request_id = ANY(cast(:request_ids AS uuid[])) ORDER BY id
""")
_LIVE = text(
    f"SELECT {COLUMNS} FROM trials t WHERE experiment_id = :experiment_id AND ended_at IS NULL ORDER BY id"
)


def _row(values: Any) -> TrialRow:
    fields = dict(values._mapping)
    fields["state"] = TrialState(fields["state"])
    return TrialRow(**fields)


def by_id(tx: Tx, trial_id: int) -> TrialRow | None:
    row = tx.execute(_BY_ID, {"id": trial_id}).first()
    return None if row is None else _row(row)


def by_request(tx: Tx, experiment_id: int, request_id: str) -> TrialRow | None:
    return next(iter(by_requests(tx, experiment_id, [request_id])), None)


def by_requests(tx: Tx, experiment_id: int, request_ids: Sequence[str]) -> list[TrialRow]:
    params = {"experiment_id": experiment_id, "request_ids": list(request_ids)}
    return [_row(r) for r in tx.execute(_BY_REQUESTS, params).all()]


def live(tx: Tx, experiment_id: int) -> list[TrialRow]:
    return [_row(r) for r in tx.execute(_LIVE, {"experiment_id": experiment_id}).all()]


_ANY_LIVE = text("SELECT 1 FROM trials WHERE experiment_id = :id AND ended_at IS NULL LIMIT 1")


def any_live(tx: Tx, experiment_id: int) -> bool:
    return tx.execute(_ANY_LIVE, {"id": experiment_id}).scalar() is not None


@dataclass(frozen=True, slots=True)
class NewTrial:
    experiment_id: int
    request_id: UUID
    state: TrialState
    hparams: dict[str, Any]
    seed: int
    task_id: str
    warm_start_uuid: UUID | None
    job_id: UUID
    context_id: UUID | None


_INSERT = text("""
    INSERT INTO trials (experiment_id, request_id, state, hparams, seed, task_id, warm_start_uuid, started_at)
    VALUES (:experiment_id, :request_id, cast(:state AS trial_state), cast(:hparams AS json), :seed, :task_id,
            :warm_start_uuid, :now)
    RETURNING id
""")
# The configuration of the experiment has the proxied ports.
_INSERT_TASK = text(f"""
    INSERT INTO tasks (id, kind, job_id, trial_id, experiment_id, context_id, sealed, started_at, proxies)
    VALUES (:id, 'TRIAL', :job_id, :trial_id, :experiment_id, :context_id, '', :now,
            (SELECT {proxies.of_config("cast(:id AS text)")} FROM experiments e WHERE e.id = :experiment_id))
""")


def insert(tx: Tx, new: NewTrial, now: datetime) -> int:
    params = {name: getattr(new, name) for name in NewTrial.__slots__}
    params |= {"hparams": as_ordered_json(tx, new.hparams), "state": new.state.value, "now": now}
    trial_id = int(tx.execute(_INSERT, params).scalar_one())
    insert_task(tx, new.task_id, trial_id, new.experiment_id, new.job_id, new.context_id, now)
    return trial_id


def insert_task(
    tx: Tx,
    id: str,
    trial_id: int,
    experiment_id: int,
    job_id: UUID,
    context_id: UUID | None,
    now: datetime,
) -> None:
    """Insert the task that runs a trial."""
    tx.execute(
        _INSERT_TASK,
        {
            "id": id, "trial_id": trial_id, "experiment_id": experiment_id, "job_id": job_id,
            "context_id": context_id, "now": now,
        },
    )  # fmt: skip


@dataclass(slots=True)
class PlannedTrial:
    """Describe a trial that a search creates."""

    request_id: str
    seed: int
    hparams: Mapping[str, Any]
    warm_start_from: str | None  # another trial, by request id
    checkpoint: str | None  # otherwise this one, or the one in the configuration
    train_to: float | None = None
    parked: bool = False  # requests no slots until it may train


_EXPERIMENT = """experiment AS (
        SELECT e.id, e.job_id, e.context_id, e.config, j.pool, e.slots_per_trial,
               coalesce((e.config#>>'{resources,is_single_node}')::boolean, false) AS single_agent,
               coalesce(e.config#>>'{resources,topology}' = 'strict', false) AS strict_topology,
               (e.config#>>'{resources,min_slots_per_trial}')::integer AS min_slots,
               CASE WHEN json_typeof(e.config->'data') = 'array' THEN ARRAY(
                   SELECT DISTINCT s->>'source' FROM json_array_elements(e.config->'data') s ORDER BY 1) ELSE '{}' END AS data_sets,
               coalesce((e.config->>'preemption_timeout')::integer, 3600) AS preempt_timeout_s,
               CASE WHEN EXISTS (SELECT 1 FROM deadlines d WHERE d.experiment_id = e.id) THEN 'none' END AS capacity,
               cast(e.config#>>'{searcher,source_checkpoint_uuid}' AS uuid) AS source
        FROM experiments e JOIN jobs j ON j.id = e.job_id WHERE e.id = :experiment_id)"""
# For the trials in `ready`.
_ALLOCATE = """INSERT INTO allocations (id, task_id, trial_id, job_id, run_id, pool, slots, state, preemptible, single_agent,
        strict_topology, capacity, data_sets, min_slots, max_slots, preempt_timeout_s, requested_at, not_before, wait_code, wait_reason, wait_since)
    SELECT r.task_id || '.' || r.run_id, r.task_id, r.id, e.job_id, r.run_id, e.pool, e.slots_per_trial, 'QUEUED', true,
           e.single_agent, e.strict_topology, e.capacity, e.data_sets, e.min_slots,
           CASE WHEN e.min_slots IS NOT NULL THEN e.slots_per_trial END, e.preempt_timeout_s, :now, :not_before, :wait_code, :wait_reason, :wait_since
    FROM ready r, experiment e WHERE r.run_id > 0 ORDER BY r.id"""
_TELL_QUEUED = """told AS (
        INSERT INTO task_logs (task_id, logged_at, level, source, log)
        SELECT r.task_id, :now, 'LOG_LEVEL_INFO', 'master',
               concat('Scheduling Trial ', r.id, ' (Experiment ', e.id, ') (id: ', r.task_id, '.', r.run_id, ')')
        FROM ready r, experiment e WHERE r.run_id > 0)"""
_INSERT_MANY = text(f"""
    WITH {_EXPERIMENT}, planned AS (
        SELECT x.* FROM ROWS FROM (json_to_recordset(cast(:rows AS json)) AS (request_id uuid, seed bigint, hparams json,
            warm_start_from uuid, checkpoint uuid, train_to double precision, parked boolean))
            WITH ORDINALITY AS x (request_id, seed, hparams, warm_start_from, checkpoint, train_to, parked, n)),
    ready AS (
        INSERT INTO trials (experiment_id, request_id, state, hparams, seed, train_to, task_id, run_id, started_at,
            parked, warm_start_uuid)
        SELECT e.id, p.request_id, cast(:state AS trial_state), p.hparams, p.seed, p.train_to,
               e.id || '.' || p.request_id, CASE WHEN :runs AND NOT p.parked THEN 1 ELSE 0 END, :now, p.parked,
               CASE WHEN p.warm_start_from IS NULL THEN coalesce(p.checkpoint, e.source) ELSE (
                   SELECT c.uuid FROM checkpoints c JOIN trials t ON t.id = c.trial_id
                   WHERE t.experiment_id = e.id AND t.request_id = p.warm_start_from AND {NEWEST_CHECKPOINT}) END
        FROM planned p, experiment e ORDER BY p.n RETURNING id, task_id, run_id),
    tasked AS (
        INSERT INTO tasks (id, kind, job_id, trial_id, experiment_id, context_id, started_at, proxies)
        SELECT r.task_id, 'TRIAL', e.job_id, r.id, e.id, e.context_id, :now, {proxies.of_config("r.task_id")}
        FROM ready r, experiment e),
    {_TELL_QUEUED}
    {_ALLOCATE}
""")
_REQUEST = text(f"""
    WITH {_EXPERIMENT}, ready AS (
        UPDATE trials SET run_id = run_id + 1, runner_state = '' WHERE id = :id RETURNING id, task_id, run_id),
    {_TELL_QUEUED}
    {_ALLOCATE} RETURNING run_id, pool
""")


def insert_many(
    tx: Tx, experiment_id: int, planned: Sequence[PlannedTrial], state: TrialState, now: datetime
) -> None:
    """Insert trials with their tasks; active ones wait for their first allocation at once."""
    rows = as_ordered_json(
        tx, [{name: getattr(p, name) for name in PlannedTrial.__slots__} for p in planned]
    )
    runs = state is TrialState.ACTIVE
    params = {"experiment_id": experiment_id, "rows": rows, "state": state.value, "runs": runs}
    tx.execute(_INSERT_MANY, {**params, "now": now, **NO_DELAY})


def request_allocation(tx: Tx, trial: TrialRow, now: datetime, delay: Delay | None) -> str:
    """Queue the trial's next allocation; returns the pool it waits in."""
    delay_params = NO_DELAY if delay is None else delay.params(now)
    params = {"experiment_id": trial.experiment_id, "id": trial.id, "now": now, **delay_params}
    trial.run_id, pool = tx.execute(_REQUEST, params).one()
    return str(pool)


_ANALYZE = text("ANALYZE trials, tasks, allocations")


def analyze_tables(database: Database) -> None:
    """Update the planner's statistics after many new rows: plans for a small table would read all of them."""
    with database.autocommit() as connection:
        connection.execute(_ANALYZE)


_SET_STATE = text("""
    UPDATE trials t SET state = cast(:state AS trial_state), stop_requested = x.stop_requested,
        stopped_early = x.stopped_early,
        ended_at = CASE WHEN :terminal THEN cast(:now AS timestamptz) END
    FROM unnest(cast(:ids AS integer[]), cast(:stop_requested AS boolean[]), cast(:stopped_early AS boolean[]))
        AS x (id, stop_requested, stopped_early)
    WHERE t.id = x.id AND t.ended_at IS NULL
""")
_END_TASK = text("UPDATE tasks SET ended_at = :now WHERE id = :task_id AND ended_at IS NULL")


def set_state(tx: Tx, trials: Sequence[TrialRow], state: TrialState, now: datetime) -> None:
    """Store the new state of trials, with the searcher's stop of each. Terminal states end their tasks."""
    params = {
        "ids": [t.id for t in trials],
        "stop_requested": [t.stop_requested for t in trials],
        "stopped_early": [t.stopped_early for t in trials],
    }
    tx.execute(_SET_STATE, {**params, "state": state.value, "terminal": state.terminal, "now": now})
    for trial in trials:
        if state.terminal:
            end_task(tx, trial.task_id, now)
        trial.state = state


def end_task(tx: Tx, task_id: str, now: datetime) -> None:
    tx.execute(_END_TASK, {"task_id": task_id, "now": now})


_REST = text("UPDATE trials SET rested_run = run_id WHERE id = :id AND parked")
_TOLD_TO_REST = text("SELECT 1 FROM trials WHERE id = :id AND rested_run = run_id")


def end_parked_run(tx: Tx, trial_id: int) -> bool:
    """Let the run of a parked trial end. Return whether the trial is parked."""
    return tx.execute(_REST, {"id": trial_id}).rowcount == 1


def is_parked_run_ending(tx: Tx, trial_id: int) -> bool:
    return tx.execute(_TOLD_TO_REST, {"id": trial_id}).first() is not None


def update(tx: Tx, trial_id: int, **values: Any) -> bool:
    """Set plain columns. False: there is no such trial."""
    trials = schema.trials
    return tx.execute(sa.update(trials).where(trials.c.id == trial_id).values(values)).rowcount == 1


# With the trials made after it: they are about to report, too.
_EXPERIMENT_OF = text("""
    SELECT t.experiment_id, array_agg(n.id) AS trial_ids
    FROM trials t JOIN trials n ON n.experiment_id = t.experiment_id AND n.id BETWEEN t.id AND t.id + 200
    WHERE t.id = :id GROUP BY t.experiment_id
""")


def experiment_of(db: Database, trial_id: int) -> tuple[int, list[int]] | None:
    """Return the trial's experiment, and trials that are of it, too."""
    rows = db.read(_EXPERIMENT_OF, {"id": trial_id})
    return (rows[0].experiment_id, rows[0].trial_ids) if rows else None


# An array, not IN: one statement to prepare, however many they are.
_KNOWN = sa.select(schema.trials.c.id).where(
    schema.trials.c.id == sa.any_(sa.bindparam("ids", type_=sa.ARRAY(sa.Integer)))
)


def known(db: Database, ids: Sequence[int]) -> set[int]:
    """Return which of the ids are ids of trials."""
    return {row.id for row in db.read(_KNOWN, {"ids": list(ids)})}


_PROGRESS = text("""
    SELECT request_id, CASE WHEN ended_at IS NULL THEN coalesce(progress, 0) ELSE 1 END AS fraction
    FROM trials WHERE experiment_id = :id AND (progress IS NOT NULL OR ended_at IS NOT NULL)
""")


def progress_of(tx: Tx, experiment_id: int) -> dict[str, float]:
    return {
        str(r.request_id): float(r.fraction)
        for r in tx.execute(_PROGRESS, {"id": experiment_id}).all()
    }
