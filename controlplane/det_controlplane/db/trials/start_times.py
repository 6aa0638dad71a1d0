"""Read when the runs of trials were requested, got a machine, started and reported."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text

from det_controlplane.core.trials.start_phases import StartTimes
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
_OF_POOL = text(f"""
    WITH chosen AS (SELECT * FROM allocations
        WHERE pool = :pool AND assigned_at > :since AND trial_id IS NOT NULL ORDER BY assigned_at DESC LIMIT :most)
    {_TIMES}
""")


class Start(NamedTuple):
    """The start of a run of a trial."""

    allocation_id: str
    times: StartTimes


def newest_of_trial(tx: Tx, trial_id: int) -> Start | None:
    row = tx.execute(_OF_TRIAL, {"trial": trial_id}).first()
    return None if row is None else _start(row)


def of_pool(tx: Tx, pool: str, since: datetime, most: int) -> list[StartTimes]:
    """Return the newest starts of trials that got slots of a pool since a time."""
    rows: Iterable[Any] = tx.execute(_OF_POOL, {"pool": pool, "since": since, "most": most})
    return [_start(row).times for row in rows]


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
