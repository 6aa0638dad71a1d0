"""Read when the runs of trials were requested, got a machine, started and reported."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text

from det_controlplane.core.trials.start_phases import StartTimes
from det_controlplane.core.trials.start_spans import TracedStart
from det_controlplane.db.engine.database import Tx

# A machine counts for a start if it was rented after the request. Reports of earlier runs end at the step from which the
# run started.
_TIMES = """
    SELECT a.id, a.requested_at, a.assigned_at, a.pull_ended_at, a.started_at,
           least(a.pull_ended_at + make_interval(secs => a.data_s), a.started_at) AS data_ready_at, m.machine_requested_at, m.launched_at,
           m.booted_at, m.registered_at, coalesce(p.usd_hour, 0)::float8 AS usd_hour, r.reported_at
    FROM chosen a
    LEFT JOIN LATERAL (
        SELECT i.requested_at AS machine_requested_at, i.launched_at, i.booted_at, i.registered_at
        FROM containers c JOIN instances i ON i.agent_id = c.agent_id
        WHERE c.allocation_id = a.id AND i.requested_at >= a.requested_at AND i.registered_at <= a.assigned_at
        ORDER BY i.registered_at DESC LIMIT 1) m ON true
    LEFT JOIN LATERAL (
        SELECT sum(i.price_usd_hour) AS usd_hour FROM instances i
        WHERE i.agent_id IN (SELECT c.agent_id FROM containers c WHERE c.allocation_id = a.id)) p ON true
    LEFT JOIN LATERAL (
        SELECT min(first.reported_at) AS reported_at
        FROM (VALUES ('training'), ('validation')) AS g (name) CROSS JOIN LATERAL (
            SELECT x.reported_at FROM metrics x
            WHERE x.trial_id = a.trial_id AND x.metric_group = g.name AND NOT x.archived
              AND x.total_batches > coalesce(a.start_steps, 0) AND x.reported_at >= a.started_at
            ORDER BY x.total_batches LIMIT 1) first) r ON true
"""
_OF_TRIAL = text(f"""
    WITH chosen AS (SELECT * FROM allocations WHERE trial_id = :trial ORDER BY requested_at DESC, id DESC LIMIT 1)
    {_TIMES}
""")
_OF_ALLOCATION = text(f"""
    WITH chosen AS (SELECT * FROM allocations WHERE id = :allocation)
    {_TIMES}
""")
_OF_POOL = text(f"""
    WITH chosen AS (SELECT * FROM allocations
        WHERE pool = :pool AND assigned_at > :since AND trial_id IS NOT NULL ORDER BY assigned_at DESC LIMIT :most)
    {_TIMES}
""")
# A start whose run does not report is complete after a while. Starts that the collector did not accept for hours are lost.
_UNTRACED = text(f"""
    WITH chosen AS (SELECT * FROM allocations a
        WHERE pool = ANY(:pools) AND assigned_at > :since AND trial_id IS NOT NULL
          AND NOT EXISTS (SELECT FROM traced_starts s WHERE s.allocation_id = a.id)),
    times AS ({_TIMES})
    SELECT x.*, t.experiment_id, a.trial_id, a.run_id, a.pool, e.traceparent, e.received_at, j.submitted_at,
           a.ended_at, a.exit_kind::text AS exit_kind, a.exit_reason
    FROM times x JOIN allocations a ON a.id = x.id JOIN trials t ON t.id = a.trial_id JOIN jobs j ON j.id = a.job_id
    LEFT JOIN experiment_traces e ON e.experiment_id = t.experiment_id
    WHERE x.reported_at IS NOT NULL OR a.ended_at IS NOT NULL OR a.assigned_at < :late
    ORDER BY a.assigned_at, a.id LIMIT :most
""")
_ARE_STARTING = text("""
    SELECT EXISTS (SELECT FROM allocations a
        WHERE a.pool = ANY(:pools) AND a.assigned_at > :since AND a.trial_id IS NOT NULL
          AND NOT EXISTS (SELECT FROM traced_starts s WHERE s.allocation_id = a.id))
""")
_SET_TRACED = text("""
    INSERT INTO traced_starts (allocation_id, sent_at)
    SELECT a.id, :now FROM allocations a WHERE a.id = ANY(:ids) ON CONFLICT DO NOTHING
""")
_ADD_SUBMISSION = text("""
    INSERT INTO experiment_traces (experiment_id, traceparent, received_at)
    VALUES (:experiment, :traceparent, :received_at)
""")
_OF_SUBMISSION = text("""
    SELECT t.experiment_id, e.traceparent FROM trials t
    LEFT JOIN experiment_traces e ON e.experiment_id = t.experiment_id WHERE t.id = :trial
""")
_CALLER = text("SELECT traceparent FROM experiment_traces WHERE experiment_id = :experiment")


class Start(NamedTuple):
    """The start of a run of a trial."""

    allocation_id: str
    times: StartTimes


def newest_of_trial(tx: Tx, trial_id: int) -> Start | None:
    row = tx.execute(_OF_TRIAL, {"trial": trial_id}).first()
    return None if row is None else _start(row)


def of_allocation(tx: Tx, allocation_id: str) -> Start | None:
    row = tx.execute(_OF_ALLOCATION, {"allocation": allocation_id}).first()
    return None if row is None else _start(row)


def of_pool(tx: Tx, pool: str, since: datetime, most: int) -> list[StartTimes]:
    """Return the newest starts of trials that got slots of a pool since a time."""
    rows: Iterable[Any] = tx.execute(_OF_POOL, {"pool": pool, "since": since, "most": most})
    return [_start(row).times for row in rows]


def untraced(
    tx: Tx, pools: list[str], since: datetime, late: datetime, most: int
) -> list[TracedStart]:
    """Return the oldest starts that can be traced and are not: they reported, ended, or began before `late`."""
    params = {"pools": pools, "since": since, "late": late, "most": most}
    return [
        TracedStart(
            allocation_id=row.id,
            experiment_id=row.experiment_id,
            trial_id=row.trial_id,
            run_id=row.run_id,
            pool=row.pool,
            caller=row.traceparent,
            received_at=row.received_at,
            submitted_at=row.submitted_at,
            ended_at=row.ended_at,
            failure=row.exit_reason or row.exit_kind or "",
            times=_start(row).times,
        )
        for row in tx.execute(_UNTRACED, params)
    ]


def are_starting(tx: Tx, pools: list[str], since: datetime) -> bool:
    """Return whether a start since a time is not traced yet."""
    return bool(tx.execute(_ARE_STARTING, {"pools": pools, "since": since}).scalar())


def set_traced(tx: Tx, allocation_ids: list[str], now: datetime) -> None:
    tx.execute(_SET_TRACED, {"ids": allocation_ids, "now": now})


def add_submission(
    tx: Tx, experiment_id: int, traceparent: str | None, received_at: datetime
) -> None:
    params = {"experiment": experiment_id, "traceparent": traceparent, "received_at": received_at}
    tx.execute(_ADD_SUBMISSION, params)


def caller_of(tx: Tx, experiment_id: int) -> str | None:
    """Return the traceparent with which an experiment was submitted."""
    caller: str | None = tx.execute(_CALLER, {"experiment": experiment_id}).scalar()
    return caller


def submission_of_trial(tx: Tx, trial_id: int) -> tuple[int, str | None]:
    """Return the experiment of a trial, and the traceparent with which it was submitted."""
    row = tx.execute(_OF_SUBMISSION, {"trial": trial_id}).one()
    return row.experiment_id, row.traceparent


def _start(row: Any) -> Start:
    times = StartTimes(
        requested_at=row.requested_at,
        machine_requested_at=row.machine_requested_at,
        machine_launched_at=row.launched_at,
        machine_booted_at=row.booted_at,
        machine_joined_at=row.registered_at,
        assigned_at=row.assigned_at,
        image_ready_at=row.pull_ended_at,
        data_ready_at=row.data_ready_at,
        started_at=row.started_at,
        first_report_at=row.reported_at,
        usd_hour=row.usd_hour,
    )
    return Start(row.id, times)
