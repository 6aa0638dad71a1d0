"""Rows of jobs: what the queue orders."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text, update

from det_controlplane.core.queue_changes import QueuedJob
from det_controlplane.db.engine import Tx
from det_controlplane.db.schema import experiments, jobs
from det_controlplane.db.views import time

_LISTED = f"""
    SELECT j.id::text AS id, json_build_object('jobId', j.id, 'type', 'TYPE_' || j.kind, 'submissionTime', {time("j.submitted_at")},
        'username', u.username, 'userId', j.user_id, 'resourcePool', j.pool, 'weight', j.weight,
        'priority', coalesce(j.priority, :default_priority), 'workspaceId', j.workspace_id,
        'entityId', coalesce(e.id::text, (SELECT min(k.id) FROM tasks k WHERE k.job_id = j.id)),
        'name', coalesce(e.name, j.name), 'progress', e.progress,
        'requestedSlots', sum(a.slots), 'allocatedSlots', coalesce(sum(a.slots) FILTER (WHERE a.state <> 'QUEUED'), 0)) AS job,
        bool_or(a.state <> 'QUEUED') AS scheduled, bool_or(a.backfilled AND a.state <> 'QUEUED') AS backfilled,
        e.progress, (SELECT min(x.assigned_at) FROM allocations x WHERE x.job_id = j.id) AS began_at,
        (array_agg(json_build_object('trialId', a.trial_id, 'code', a.wait_code, 'sentence', a.wait_reason, 'machines', a.machine_reason)
            ORDER BY a.requested_at, a.id) FILTER (WHERE a.state = 'QUEUED' AND a.wait_reason IS NOT NULL))[1] AS waits
    FROM jobs j JOIN allocations a ON a.job_id = j.id AND a.state <> 'TERMINATED' JOIN users u ON u.id = j.user_id
    LEFT JOIN experiments e ON e.job_id = j.id
    WHERE {{where}} GROUP BY j.id, u.username, e.id
"""
_LISTED_OF_POOL = text(_LISTED.replace("{where}", "a.pool = :pool"))
_LISTED_ELSEWHERE = text(_LISTED.replace("{where}", "a.pool <> ALL(cast(:pools AS text[]))"))
_WAITED = text("""
    SELECT to_char(a.assigned_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
        avg(extract(epoch FROM a.assigned_at - a.requested_at))::float8 AS seconds
    FROM allocations a WHERE a.pool = :pool AND a.assigned_at >= :since GROUP BY day ORDER BY day
""")
_QUEUED = text("""
    SELECT j.id::text AS id, j.pool, j.priority, j.weight, j.position, j.kind = 'EXPERIMENT' AS is_experiment,
           EXISTS (SELECT 1 FROM allocations a WHERE a.job_id = j.id AND a.state <> 'TERMINATED') AS active,
           CASE WHEN (e.config#>>'{resources,is_single_node}')::boolean THEN e.slots_per_trial ELSE 0 END AS slots_of_one_agent,
           j.workspace_id
    FROM jobs j LEFT JOIN experiments e ON e.job_id = j.id
    WHERE e.state IN ('ACTIVE', 'PAUSED') OR EXISTS (
        SELECT 1 FROM allocations a WHERE a.job_id = j.id AND a.state <> 'TERMINATED')
""")


@dataclass(frozen=True, slots=True)
class ListedJob:
    id: str
    job: dict[str, Any]  # in the API's JSON
    scheduled: bool
    backfilled: bool
    progress: float | None
    began_at: datetime | None  # when its first allocation got slots
    waits: dict[str, Any] | None  # why its first waiting allocation does


def listed(tx: Tx, pool: str, default_priority: int) -> list[ListedJob]:
    """Return jobs with live allocations in the pool."""
    params = {"pool": pool, "default_priority": default_priority}
    return [ListedJob(*row) for row in tx.execute(_LISTED_OF_POOL, params)]


def listed_elsewhere(tx: Tx, pools: Collection[str], default_priority: int) -> list[ListedJob]:
    """Return jobs with live allocations in none of the pools."""
    params = {"pools": list(pools), "default_priority": default_priority}
    return [ListedJob(*row) for row in tx.execute(_LISTED_ELSEWHERE, params)]


def waited(tx: Tx, pool: str, since: datetime) -> list[dict[str, Any]]:
    """Tell in the API's JSON how long allocations waited for slots, as an average of each day."""
    rows = tx.execute(_WAITED, {"pool": pool, "since": since})
    return [{"periodStart": row.day, "seconds": row.seconds} for row in rows]


def queued(tx: Tx) -> list[QueuedJob]:
    """Return jobs whose place in the queue may be changed."""
    return [QueuedJob(**row._mapping) for row in tx.execute(_QUEUED)]


def experiment_of(tx: Tx, job_id: UUID) -> int | None:
    found = select(experiments.c.id).where(experiments.c.job_id == job_id)
    return tx.execute(found).scalar()


def workspace_of(tx: Tx, job_id: UUID) -> int:
    found = select(jobs.c.workspace_id).where(jobs.c.id == job_id)
    return int(tx.execute(found).scalar_one())


def change(tx: Tx, job_id: UUID, **values: Any) -> None:
    tx.execute(update(jobs).where(jobs.c.id == job_id).values(values))
