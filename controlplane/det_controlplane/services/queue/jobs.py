"""Show the job queue: which job is next, and where an experiment stands in it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from det_controlplane.core import schedule
from det_controlplane.core.paging import Page
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments.experiment_pages import ShownExperiment
from det_controlplane.db.scheduling import jobs as job_rows
from det_controlplane.db.scheduling import slots
from det_controlplane.db.scheduling.jobs import ListedJob, Place, QueueEntry, QueueSettings
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.queue import why
from det_controlplane.services.scheduling import schedule_pool

_WAITS_SHOWN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class QueuePart:
    """A page of a queue in the API's JSON."""

    jobs: list[dict[str, Any]]
    pagination: dict[str, int]


def queue_of(
    ctx: Context,
    pool_name: str,
    page: Page,
    *,
    descending: bool = False,
    states: Sequence[str] = (),
    within: Collection[int] | None = None,
) -> QueuePart:
    """Return a page of a queue in its order: of jobs in some states (none: all) and some workspaces (None: all).

    The default pool's queue ends with the jobs of pools that are no longer configured."""
    name = pool_name or ctx.config.default_compute_resource_pool
    if ctx.config.pool(name) is None:
        raise Missing(f"resource pool '{name}' not found")
    scheduler = ctx.config.scheduler_of(name)
    queue = QueueSettings(
        name, scheduler.type, scheduler.default_priority, descending, list(states) or None,
        None if within is None else list(within),
    )  # fmt: skip
    stranded = (
        _read_stranded_jobs(ctx, queue) if name == ctx.config.default_compute_resource_pool else []
    )
    with ctx.db.autocommit() as tx:
        total, entries = job_rows.page(tx, queue, page, len(stranded))
        jobs = _jobs_json(ctx, tx, queue, entries)
    pagination = page.pagination(total + len(stranded))
    first, last = (max(pagination[end] - total, 0) for end in ("startIndex", "endIndex"))
    return QueuePart(jobs + stranded[first:last], pagination)


def _jobs_json(
    ctx: Context, tx: Tx, queue: QueueSettings, entries: Sequence[QueueEntry]
) -> list[dict[str, Any]]:
    """Return jobs in the API's JSON. Jobs that have ended since are left out."""
    ids = [entry.id for entry in entries]
    rows = {row.id: row for row in job_rows.listed(tx, queue.pool, ids, queue.default_priority)}
    starts = _expected_starts(ctx, tx, queue.pool, entries)
    preemptible = ctx.config.scheduler_of(queue.pool).preemption
    return [
        {**_listed_job(rows[entry.id], preemptible, entry.ahead), **starts.get(entry.id, {})}
        for entry in entries
        if entry.id in rows
    ]


def _read_stranded_jobs(ctx: Context, queue: QueueSettings) -> list[dict[str, Any]]:
    pools, scheduler = [p.pool_name for p in ctx.config.resource_pools], ctx.config.scheduler
    with ctx.db.autocommit() as tx:
        rows = job_rows.listed_elsewhere(tx, pools, scheduler.default_priority)
    jobs = [_stranded_job(ctx, row, scheduler.preemption) for row in rows]
    return [
        job
        for job in jobs
        if (queue.states is None or job["summary"]["state"].removeprefix("STATE_") in queue.states)
        and (queue.within is None or job["workspaceId"] in queue.within)
    ]


def _stranded_job(ctx: Context, row: ListedJob, preemptible: bool) -> dict[str, Any]:
    job = _listed_job(row, preemptible, ahead=-1)
    if row.scheduled and not row.waits:
        return job
    experiment_id = int(job["entityId"]) if job["type"] == "TYPE_EXPERIMENT" else None
    return job | {"why": why.without_pool(ctx, job["resourcePool"], experiment_id)}


def summary(ctx: Context, experiment: ShownExperiment) -> dict[str, Any] | None:
    """Return where an experiment stands in the queue; None unless it waits there."""
    if experiment.state != "STATE_QUEUED" or ctx.config.pool(experiment.pool) is None:
        return None
    scheduler = ctx.config.scheduler_of(experiment.pool)
    with ctx.db.autocommit() as tx:
        place = job_rows.place(
            tx, experiment.pool, experiment.job_id, scheduler.type, scheduler.default_priority
        )
    return None if place is None else {"state": _state(place), "jobsAhead": place.ahead}


def _expected_starts(
    ctx: Context, tx: Tx, pool: str, entries: Sequence[QueueEntry]
) -> dict[str, dict[str, str]]:
    """Return the expected starts that are known, by job, as the API shows them."""
    waiting = sorted((entry.needed, entry.id) for entry in entries if entry.needed is not None)
    if not waiting or not schedule_pool.can_expect_starts(ctx, pool):
        return {}
    now = ctx.now()
    running = [
        (schedule.JobProgress(job.progress, (now - job.began_at).total_seconds()), job.held)
        for job in job_rows.advances(tx, pool)
    ]
    free = slots.count_free(tx, pool)
    starts = schedule.expected_starts(free, running, ((id, needed) for needed, id in waiting))
    return {
        job_id: {"expectedStart": f"{now + timedelta(seconds=round(s)):%Y-%m-%dT%H:%M:%SZ}"}
        for job_id, s in starts.items()
    }


def _listed_job(row: ListedJob, preemptible: bool, ahead: int) -> dict[str, Any]:
    return {
        **row.job,
        "isPreemptible": preemptible,
        "summary": {"state": _state(row), "jobsAhead": ahead},
        "why": why.in_queue(row.waits) if row.waits else "",
    }


def _state(job: ListedJob | Place) -> str:
    if not job.scheduled:
        return "STATE_QUEUED"
    return "STATE_SCHEDULED_BACKFILLED" if job.backfilled else "STATE_SCHEDULED"


def stats(ctx: Context, pools: Sequence[str]) -> list[dict[str, Any]]:
    names = pools or [p.pool_name for p in ctx.config.resource_pools]
    answer = []
    for pool in names:
        if ctx.config.pool(pool) is None:
            raise Missing(f"resource pool '{pool}' not found")
        with ctx.db.autocommit() as tx:
            queued, scheduled = job_rows.counts(tx, pool)
            counts = {"queuedCount": queued, "scheduledCount": scheduled}
            waited = job_rows.waited(tx, pool, ctx.now() - _WAITS_SHOWN)
        answer.append({"resourcePool": pool, "stats": counts, "aggregates": waited})
    return answer
