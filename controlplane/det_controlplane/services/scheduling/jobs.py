"""Show the job queue: which job is next, and where an experiment stands in it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core import schedule
from det_controlplane.db import jobs as job_rows
from det_controlplane.db.experiment_pages import ShownExperiment
from det_controlplane.db.jobs import ListedJob
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.scheduling import schedule_pool, why

_WAITS_SHOWN = timedelta(days=30)


def listed(ctx: Context, pool_name: str, *, descending: bool) -> list[dict[str, Any]]:
    """List jobs with live requests, in the order the scheduler would take them."""
    name = pool_name or ctx.config.default_compute_resource_pool
    pool = ctx.config.pool(name)
    if pool is None:
        raise Missing(f"resource pool '{name}' not found")
    settings = schedule_pool.settings_of(ctx, name)
    with ctx.db.begin() as tx:
        rows = job_rows.listed(tx, name, ctx.config.scheduler_of(name).default_priority)
        snapshot = schedule_pool.snapshot_of(ctx, name, schedule_pool.load(ctx, tx, name))
    ahead, starts = schedule.jobs_ahead(snapshot), _expected_starts(snapshot, rows, ctx.now())
    jobs = [
        {**_listed_job(r, settings.preemption, ahead.get(r.id, -1)), **starts.get(r.id, {})}
        for r in rows
    ]
    jobs.sort(key=lambda j: (j["summary"]["jobsAhead"], j["jobId"]), reverse=descending)
    return jobs


def shown(ctx: Context, pool_name: str, *, descending: bool) -> list[dict[str, Any]]:
    """List a queue; the default pool's ends with the jobs of pools that are no longer configured."""
    jobs = listed(ctx, pool_name, descending=descending)
    default = ctx.config.default_compute_resource_pool
    return jobs if (pool_name or default) != default else [*jobs, *_stranded(ctx)]


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
    jobs = listed(ctx, experiment.pool, descending=False)
    own = [j["summary"] for j in jobs if j["jobId"] == experiment.job_id]
    return own[0] if own else None


def _expected_starts(
    snapshot: schedule.PoolSnapshot, rows: Sequence[ListedJob], now: datetime
) -> dict[str, dict[str, str]]:
    """Return the expected starts that are known, by job, as the API shows them."""
    advances = {
        r.id: schedule.JobProgress(r.progress, (now - r.began_at).total_seconds())
        for r in rows
        if r.progress is not None and r.began_at is not None
    }
    found = schedule.expected_starts(snapshot, advances)
    return {
        job_id: {"expectedStart": f"{now + timedelta(seconds=round(s)):%Y-%m-%dT%H:%M:%SZ}"}
        for job_id, s in found.items()
    }


def _listed_job(row: ListedJob, preemptible: bool, ahead: int) -> dict[str, Any]:
    state = "STATE_QUEUED"
    if row.scheduled:
        state = "STATE_SCHEDULED_BACKFILLED" if row.backfilled else "STATE_SCHEDULED"
    return {
        **row.job,
        "isPreemptible": preemptible,
        "summary": {"state": state, "jobsAhead": ahead},
        "why": why.in_queue(row.waits) if row.waits else "",
    }


def stats(ctx: Context, pools: Sequence[str]) -> list[dict[str, Any]]:
    wanted = pools or [p.pool_name for p in ctx.config.resource_pools]
    answer = []
    for pool in wanted:
        jobs = listed(ctx, pool, descending=False)
        queued = sum(j["summary"]["state"] == "STATE_QUEUED" for j in jobs)
        counts = {"queuedCount": queued, "scheduledCount": len(jobs) - queued}
        with ctx.db.autocommit() as tx:
            waited = job_rows.waited(tx, pool, ctx.now() - _WAITS_SHOWN)
        answer.append({"resourcePool": pool, "stats": counts, "aggregates": waited})
    return answer
