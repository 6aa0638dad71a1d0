"""Changing the job queue: decided as a whole, applied job by job under each experiment's lock."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.core.lifecycle.allocation import AllocationState
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.core.queue import QueueChange, QueuedJob, QueuePool, QueueUpdate, change_queue
from det_controlplane.db import allocations, experiments, queue, trials
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.scheduling import placement

_JOBS = text("""
    SELECT j.id::text AS id, j.pool, j.priority, j.weight, j.position, j.kind = 'EXPERIMENT' AS is_experiment,
           EXISTS (SELECT 1 FROM allocations a WHERE a.job_id = j.id AND a.state <> 'TERMINATED') AS active
    FROM jobs j LEFT JOIN experiments e ON e.job_id = j.id
    WHERE e.state IN ('ACTIVE', 'PAUSED') OR EXISTS (
        SELECT 1 FROM allocations a WHERE a.job_id = j.id AND a.state <> 'TERMINATED')
""")
_EXPERIMENT = text("SELECT id FROM experiments WHERE job_id = cast(:id AS uuid)")
_CHANGE = text("""
    UPDATE jobs SET priority = coalesce(:priority, priority), weight = coalesce(:weight, weight),
        pool = coalesce(:pool, pool), position = coalesce(cast(:position AS numeric), position)
    WHERE id = cast(:id AS uuid)
""")
_MOVE_QUEUED = text("""
    UPDATE allocations SET pool = :pool, not_before = NULL, wait_code = NULL, wait_reason = NULL, wait_since = NULL
    WHERE job_id = cast(:id AS uuid) AND state = 'QUEUED'
""")


def update(ctx: Context, updates: Sequence[QueueUpdate]) -> None:
    """Updates that are allowed are made; the reasons of those that are not are told together."""
    with ctx.db.begin() as tx:
        jobs = [QueuedJob(**r._mapping) for r in tx.execute(_JOBS).all()]
    pools = {
        p.pool_name: QueuePool(p.scheduler.type, p.scheduler.default_priority)
        for p in ctx.config.resource_pools
    }
    answer = change_queue(jobs, pools, updates, int(ctx.now().timestamp() * 1_000_000))
    for change in answer.changes:
        _apply(ctx, change)
    if answer.refused is not None:
        raise Invalid(answer.refused.reason)


def _apply(ctx: Context, change: QueueChange) -> None:
    with ctx.db.begin() as tx:
        experiment_id = tx.execute(_EXPERIMENT, {"id": change.job_id}).scalar()
    if experiment_id is None:
        _apply_to_task(ctx, change)
        return
    with live.opened(ctx, int(experiment_id)) as experiment:
        old_pool = experiment.row.pool
        experiment.tx.execute(_CHANGE, _params(change))
        values = {
            "priority": change.priority,
            "weight": change.weight,
            "resource_pool": change.pool,
        }
        for name, value in values.items():
            if value is not None:
                experiments.set_config(experiment.tx, experiment.row.id, ["resources", name], value)
        if change.pool is not None and change.pool != old_pool:
            _move(experiment, change.job_id, change.pool)
        experiment.effects.queue_changed(old_pool)


def _move(experiment: LiveExperiment, job_id: str, pool: str) -> None:
    """What waits moves at once; what runs checkpoints, stops and is queued again in the new pool."""
    experiment.row.pool = pool
    experiment.tx.execute(_MOVE_QUEUED, {"id": job_id, "pool": pool})
    for trial in trials.live(experiment.tx, experiment.row.id):
        allocation = allocations.live_of_task(experiment.tx, trial.task_id)
        if allocation is not None and allocation.state is not AllocationState.QUEUED:
            reason = f"the experiment moves to resource pool {pool}"
            placement.stop(
                experiment.tx,
                experiment.effects,
                allocation,
                Signal.TERMINATE,
                reason,
                experiment.now,
            )
    experiment.effects.queue_changed(pool)


def _apply_to_task(ctx: Context, change: QueueChange) -> None:
    with ctx.db.begin() as tx:
        tx.execute(_CHANGE, _params(change))
        for pool in ctx.config.resource_pools:
            queue.mark_dirty(tx, pool.pool_name)
    ctx.waker.wake("schedule")


def _params(change: QueueChange) -> dict[str, Any]:
    return {
        "id": change.job_id, "priority": change.priority, "weight": change.weight,
        "pool": change.pool, "position": None if change.position is None else str(change.position),
    }  # fmt: skip
