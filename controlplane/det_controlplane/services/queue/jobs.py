"""Show the job queue: which job is next, and where an experiment stands in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core import schedule
from det_controlplane.db.experiments.experiment_pages import ShownExperiment
from det_controlplane.db.scheduling import jobs as job_rows
from det_controlplane.db.scheduling.jobs import Advance, ListedJob, LiveJob, Place
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.queue import why
from det_controlplane.services.scheduling import schedule_pool

_WAITS_SHOWN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A job's place in the queue of a pool."""

    id: str
    workspace_id: int
    state: str
    ahead: int  # jobs; -1 if the scheduler keeps no order
    job: dict[str, Any] | None = None  # in the API's JSON, if that is known


@dataclass(frozen=True, slots=True)
class Queue:
    pool: str
    entries: list[QueueEntry]
    snapshot: schedule.PoolSnapshot


def queue_of(ctx: Context, pool_name: str, *, descending: bool) -> Queue:
    """Return a queue in its order; the default pool's ends with the jobs of pools that are no longer configured."""
    name = pool_name or ctx.config.default_compute_resource_pool
    if ctx.config.pool(name) is None:
        raise Missing(f"resource pool '{name}' not found")
    with ctx.db.begin() as tx:
        live = job_rows.live(tx, name)
        snapshot = schedule_pool.snapshot_of(ctx, name, schedule_pool.load(ctx, tx, name))
    ahead = schedule.jobs_ahead(snapshot)
    entries = [QueueEntry(j.id, j.workspace_id, _state(j), ahead.get(j.id, -1)) for j in live]
    entries.sort(key=lambda entry: (entry.ahead, entry.id), reverse=descending)
    if name == ctx.config.default_compute_resource_pool:
        entries += [
            QueueEntry(job["jobId"], job["workspaceId"], job["summary"]["state"], -1, job)
            for job in _stranded(ctx)
        ]
    return Queue(name, entries, snapshot)


def shown(ctx: Context, queue: Queue, entries: Sequence[QueueEntry]) -> list[dict[str, Any]]:
    """Return some entries of a queue in the API's JSON. Jobs that have ended since are left out."""
    preemptible = queue.snapshot.settings.preemption
    jobs = {entry.id: entry.job for entry in entries if entry.job is not None}
    ahead = {entry.id: entry.ahead for entry in entries if entry.job is None}
    if ahead:
        default_priority = ctx.config.scheduler_of(queue.pool).default_priority
        with ctx.db.begin() as tx:
            rows = job_rows.listed(tx, queue.pool, ahead.keys(), default_priority)
            advances = job_rows.advances(tx, queue.pool)
        starts = _expected_starts(queue.snapshot, advances, ctx.now())
        for row in rows:
            job = _listed_job(row, preemptible, ahead[row.id])
            jobs[row.id] = {**job, **starts.get(row.id, {})}
    return [jobs[entry.id] for entry in entries if entry.id in jobs]


def _stranded(ctx: Context) -> list[dict[str, Any]]:
    pools, scheduler = [p.pool_name for p in ctx.config.resource_pools], ctx.config.scheduler
    with ctx.db.autocommit() as tx:
        rows = job_rows.listed_elsewhere(tx, pools, scheduler.default_priority)
    return [_stranded_job(ctx, row, scheduler.preemption) for row in rows]


def _stranded_job(ctx: Context, row: ListedJob, preemptible: bool) -> dict[str, Any]:
    job = _listed_job(row, preemptible, ahead=-1)
    if row.scheduled and not row.waits:
        return job
    is_experiment = job["type"] == "TYPE_EXPERIMENT"
    return job | {"why": why.without_pool(ctx, job["resourcePool"], row.id, is_experiment)}


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
    snapshot: schedule.PoolSnapshot, running: Sequence[Advance], now: datetime
) -> dict[str, dict[str, str]]:
    """Return the expected starts that are known, by job, as the API shows them."""
    advances = {
        job.job_id: schedule.JobProgress(job.progress, (now - job.began_at).total_seconds())
        for job in running
    }
    starts = schedule.expected_starts(snapshot, advances)
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


def _state(job: LiveJob | ListedJob | Place) -> str:
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
