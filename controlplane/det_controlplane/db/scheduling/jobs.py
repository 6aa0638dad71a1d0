"""Rows of jobs, the entries of the queue."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text, update

from det_controlplane.core.paging import Page
from det_controlplane.core.schedule import SchedulerType
from det_controlplane.core.schedule.queue_changes import QueuedJob
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time
from det_controlplane.db.schema import experiments, jobs

_LISTED = f"""
    SELECT j.id::text AS id, json_build_object('jobId', j.id, 'type', 'TYPE_' || j.kind, 'submissionTime', {time("j.submitted_at")},
        'username', u.username, 'userId', j.user_id, 'resourcePool', j.pool, 'weight', j.weight,
        'priority', coalesce(j.priority, :default_priority), 'workspaceId', j.workspace_id,
        'entityId', coalesce(e.id::text, (SELECT min(k.id) FROM tasks k WHERE k.job_id = j.id)),
        'name', coalesce(e.name, j.name), 'progress', e.progress,
        'requestedSlots', sum(coalesce(a.max_slots, a.slots)), 'allocatedSlots', coalesce(sum(a.slots) FILTER (WHERE a.state <> 'QUEUED'), 0)) AS job,
        bool_or(a.state <> 'QUEUED') AS scheduled, bool_or(a.backfilled AND a.state <> 'QUEUED') AS backfilled,
        (array_agg(json_build_object('trialId', a.trial_id, 'code', a.wait_code, 'sentence', coalesce(a.wait_reason, w.sentence), 'machines', a.machine_reason)
            ORDER BY a.requested_at, a.id) FILTER (WHERE a.state = 'QUEUED' AND coalesce(a.wait_reason, w.sentence) IS NOT NULL))[1] AS waits
    FROM jobs j JOIN allocations a ON a.job_id = j.id AND a.state <> 'TERMINATED' JOIN users u ON u.id = j.user_id
    LEFT JOIN experiments e ON e.job_id = j.id LEFT JOIN wait_reasons w ON w.id = a.wait_reason_id
    WHERE {{where}} GROUP BY j.id, u.username, e.id
"""
_LISTED_BY_ID = text(
    _LISTED.replace("{where}", "a.pool = :pool AND j.id = ANY(cast(:ids AS uuid[]))")
)
_HAS_CONTAINERS = """EXISTS (SELECT FROM containers c
    WHERE c.allocation_id = a.id AND c.epoch = a.epoch AND c.state <> 'TERMINATED')"""
# The whole queue is sorted for a page, but only rows of the page leave PostgreSQL. A job has a place if an allocation of it
# has containers, or is queued without a delay; other jobs come first. Most jobs are read from the index jobs_in_queue. OFFSET
# 0 makes PostgreSQL look up each other job: it would read all jobs to join thousands of them.
_PAGE = text(f"""
    WITH live AS (
        SELECT a.job_id AS id, bool_or(a.state <> 'QUEUED') AS scheduled,
            bool_or(a.backfilled AND a.state <> 'QUEUED') AS backfilled,
            min(coalesce(a.min_slots, a.slots)) FILTER (WHERE a.state = 'QUEUED' AND a.not_before IS NULL) AS needed,
            bool_or(a.state <> 'QUEUED' AND {_HAS_CONTAINERS}) AS holds
        FROM allocations a WHERE a.state <> 'TERMINATED' AND a.pool = :pool GROUP BY a.job_id),
    jobs_of_pool AS (
        SELECT x.*, coalesce(q.position, o.position) AS position, coalesce(q.workspace_id, o.workspace_id) AS workspace_id,
            cast(:scheduler AS text) <> 'fair_share' AND (x.holds OR x.needed IS NOT NULL) AS placed,
            CASE WHEN cast(:scheduler AS text) = 'priority' THEN coalesce(q.priority, o.priority, :default_priority) END AS priority
        FROM live x LEFT JOIN jobs q ON q.id = x.id AND q.pool = :pool AND q.in_queue
        LEFT JOIN LATERAL (SELECT j.workspace_id, j.position, j.priority FROM jobs j
            WHERE j.id = x.id AND q.id IS NULL OFFSET 0) o ON true),
    queue AS (
        SELECT id, workspace_id, row_number() OVER in_order AS number,
            CASE WHEN placed THEN count(*) FILTER (WHERE placed) OVER in_order - 1 ELSE -1 END AS ahead,
            CASE WHEN NOT holds THEN sum(needed) FILTER (WHERE NOT holds) OVER in_order END AS needed,
            CASE WHEN backfilled THEN 'SCHEDULED_BACKFILLED' WHEN scheduled THEN 'SCHEDULED' ELSE 'QUEUED' END AS state
        FROM jobs_of_pool WINDOW in_order AS (ORDER BY placed, CASE WHEN placed THEN priority END,
            CASE WHEN placed THEN position END, id ROWS UNBOUNDED PRECEDING)),
    seen AS MATERIALIZED (
        SELECT * FROM queue WHERE (cast(:states AS text[]) IS NULL OR state = ANY(cast(:states AS text[])))
            AND (cast(:within AS integer[]) IS NULL OR workspace_id = ANY(cast(:within AS integer[]))))
    SELECT t.total, p.id::text AS id, p.ahead, p.needed
    FROM (SELECT count(*) AS total FROM seen) t LEFT JOIN LATERAL (
        SELECT * FROM seen ORDER BY CASE WHEN cast(:descending AS boolean) THEN -number ELSE number END
        OFFSET CASE WHEN :offset < 0 THEN greatest(t.total + :beside + :offset, 0) ELSE :offset END
        LIMIT cast(:most AS bigint)) p ON true
""")
# The jobs before one are counted in the index jobs_in_queue alone.
_PLACE = """
    SELECT x.*, (SELECT count(*) FROM jobs o WHERE o.pool = x.pool AND o.in_queue AND {before}) AS ahead
    FROM (SELECT j.id, j.pool, coalesce(j.priority, :default_priority) AS priority, j.position,
            bool_or(a.state <> 'QUEUED') AS scheduled, bool_or(a.backfilled AND a.state <> 'QUEUED') AS backfilled,
            bool_or(a.state <> 'QUEUED' OR a.not_before IS NULL) AS ordered
        FROM jobs j JOIN allocations a ON a.job_id = j.id AND a.pool = j.pool AND a.state <> 'TERMINATED'
        WHERE j.id = cast(:id AS uuid) AND j.pool = :pool GROUP BY j.id) x
"""
_PLACES = {
    "priority": text(
        _PLACE.replace(
            "{before}",
            "(coalesce(o.priority, :default_priority), o.position, o.id) < (x.priority, x.position, x.id)",
        )
    ),
    "round_robin": text(_PLACE.replace("{before}", "(o.position, o.id) < (x.position, x.id)")),
    "fair_share": text(_PLACE.replace("{before}", "false")),
}
_COUNTS = text("""
    SELECT count(*) FILTER (WHERE NOT scheduled) AS queued, count(*) FILTER (WHERE scheduled) AS scheduled
    FROM (SELECT bool_or(state <> 'QUEUED') AS scheduled FROM allocations
        WHERE state <> 'TERMINATED' AND pool = :pool GROUP BY job_id) x
""")
_ADVANCES = text(f"""
    SELECT e.job_id::text AS id, x.held, e.progress,
        (SELECT min(x.assigned_at) FROM allocations x WHERE x.job_id = e.job_id) AS began_at
    FROM (SELECT a.job_id, sum(a.slots) AS held FROM allocations a
        WHERE a.pool = :pool AND a.state NOT IN ('TERMINATED', 'QUEUED') AND {_HAS_CONTAINERS} GROUP BY a.job_id) x
    JOIN experiments e ON e.job_id = x.job_id WHERE e.progress IS NOT NULL
""")
_LISTED_ELSEWHERE = text(_LISTED.replace("{where}", "a.pool <> ALL(cast(:pools AS text[]))"))
_WAITED = text("""
    SELECT to_char(day, 'YYYY-MM-DD') AS day, seconds FROM (
        SELECT date_trunc('day', a.assigned_at AT TIME ZONE 'UTC') AS day,
            avg(date_part('epoch', a.assigned_at - a.requested_at)) AS seconds
        FROM allocations a WHERE a.pool = :pool AND a.assigned_at >= :since GROUP BY 1) x ORDER BY day
""")
_MARKED = text("SELECT count(*) FROM jobs WHERE pool = :pool AND in_queue")
_ENTER = text("""
    UPDATE jobs SET in_queue = true WHERE id IN (
        SELECT id FROM jobs WHERE id = ANY(cast(:ids AS uuid[])) AND NOT in_queue FOR NO KEY UPDATE SKIP LOCKED)
""")
_LEAVE = text("""
    UPDATE jobs SET in_queue = false WHERE id IN (
        SELECT j.id FROM jobs j LEFT JOIN unnest(cast(:ids AS uuid[])) k ON k = j.id
        WHERE j.pool = :pool AND j.in_queue AND k IS NULL FOR NO KEY UPDATE OF j SKIP LOCKED)
""")
_NAMES = text("""
    SELECT j.id::text AS id, u.username, coalesce('experiment ' || e.id, CASE j.kind WHEN 'TENSORBOARD' THEN 'a TensorBoard'
        WHEN 'CHECKPOINT_GC' THEN 'a deletion of checkpoints' WHEN 'GENERIC' THEN 'a task' ELSE 'a ' || lower(j.kind::text) END) AS thing
    FROM jobs j JOIN users u ON u.id = j.user_id LEFT JOIN experiments e ON e.job_id = j.id
    WHERE j.id = ANY(cast(:ids AS uuid[]))
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
class QueueSettings:
    """A pool, its order, and the jobs that the caller wants to see; None stands for all states or workspaces."""

    pool: str
    scheduler: SchedulerType
    default_priority: int
    descending: bool = False
    states: Sequence[str] | None = None
    within: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """The place of a job in a queue."""

    id: str
    ahead: int  # jobs; -1 for a job without a place
    needed: (
        int | None
    )  # slots that it and all waiting jobs ahead need; None for a job that does not wait for slots


@dataclass(frozen=True, slots=True)
class Place:
    """The state of a job, and how many jobs are ahead of it; -1 if the scheduler keeps no order."""

    scheduled: bool
    backfilled: bool
    ahead: int


@dataclass(frozen=True, slots=True)
class ListedJob:
    id: str
    job: dict[str, Any]  # in the API's JSON
    scheduled: bool
    backfilled: bool
    waits: dict[str, Any] | None  # why its first queued allocation is not scheduled


@dataclass(frozen=True, slots=True)
class Advance:
    """The slots and progress of an experiment that runs, and when its first allocation got slots."""

    job_id: str
    held: int
    progress: float
    began_at: datetime


def page(tx: Tx, queue: QueueSettings, page: Page, beside: int) -> tuple[int, list[QueueEntry]]:
    """Return the number of jobs with live allocations in a pool, and a page of them. `beside` other jobs follow them."""
    params = {**asdict(queue), "offset": page.offset, "most": page.most, "beside": beside}
    rows = tx.execute(_PAGE, params).all()
    return rows[0].total, [QueueEntry(r.id, r.ahead, r.needed) for r in rows if r.id is not None]


def place(
    tx: Tx, pool: str, job_id: str, scheduler: SchedulerType, default_priority: int
) -> Place | None:
    """Return a job's place in the order of a pool; None for a job without live allocations there."""
    params = {"pool": pool, "id": job_id, "default_priority": default_priority}
    row = tx.execute(_PLACES[scheduler], params).first()
    if row is None:
        return None
    is_ordered = row.ordered and scheduler != "fair_share"
    return Place(row.scheduled, row.backfilled, row.ahead if is_ordered else -1)


def counts(tx: Tx, pool: str) -> tuple[int, int]:
    """Return how many jobs of a pool are queued, and how many are scheduled."""
    row = tx.execute(_COUNTS, {"pool": pool}).one()
    return row.queued, row.scheduled


def advances(tx: Tx, pool: str) -> list[Advance]:
    rows = tx.execute(_ADVANCES, {"pool": pool})
    return [Advance(*row) for row in rows if row.began_at is not None]


def listed(tx: Tx, pool: str, ids: Collection[str], default_priority: int) -> list[ListedJob]:
    """Return some of the jobs with live allocations in a pool."""
    params = {"pool": pool, "ids": list(ids), "default_priority": default_priority}
    return [ListedJob(*row) for row in tx.execute(_LISTED_BY_ID, params)]


def listed_elsewhere(tx: Tx, pools: Collection[str], default_priority: int) -> list[ListedJob]:
    """Return jobs with live allocations in pools that are not configured."""
    params = {"pools": list(pools), "default_priority": default_priority}
    return [ListedJob(*row) for row in tx.execute(_LISTED_ELSEWHERE, params)]


def waited(tx: Tx, pool: str, since: datetime) -> list[dict[str, Any]]:
    """Tell in the API's JSON how long allocations waited for slots, as an average of each day."""
    rows = tx.execute(_WAITED, {"pool": pool, "since": since})
    return [{"periodStart": row.day, "seconds": row.seconds} for row in rows]


def queued(tx: Tx) -> list[QueuedJob]:
    """Return jobs with a place in the queue that may be changed."""
    return [QueuedJob(**row._mapping) for row in tx.execute(_QUEUED)]


def names(tx: Tx, ids: Collection[str]) -> dict[str, str]:
    """Return how users know these jobs: by the number of an experiment or the kind of a task, and the owner."""
    return {r.id: f"{r.thing} of {r.username}" for r in tx.execute(_NAMES, {"ids": list(ids)})}


def experiment_of(tx: Tx, job_id: UUID) -> int | None:
    query = select(experiments.c.id).where(experiments.c.job_id == job_id)
    return tx.execute(query).scalar()


def workspace_of(tx: Tx, job_id: UUID) -> int:
    query = select(jobs.c.workspace_id).where(jobs.c.id == job_id)
    return int(tx.execute(query).scalar_one())


def change(tx: Tx, job_id: UUID, **values: Any) -> None:
    tx.execute(update(jobs).where(jobs.c.id == job_id).values(values))


def keep_in_queue(tx: Tx, pool: str, ids: Collection[str], unmarked: Collection[str]) -> None:
    """Mark the jobs that a pass found in a pool's queue, and no others. Jobs that others have locked wait for a later pass."""
    if unmarked:
        tx.execute(_ENTER, {"ids": list(unmarked)})
    if tx.execute(_MARKED, {"pool": pool}).scalar() != len(ids):
        tx.execute(_LEAVE, {"pool": pool, "ids": list(ids)})
