"""Changing the job queue: decided as a whole, applied job by job under each experiment's lock."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from det_controlplane.core.lifecycle.allocation import AllocationState
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.core.queue import QueueChange, QueuePool, QueueUpdate, change_queue
from det_controlplane.db import allocations, experiments, jobs, queue, trials
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.scheduling import placement


def update(ctx: Context, updates: Sequence[QueueUpdate]) -> None:
    """Updates that are allowed are made; the reasons of those that are not are told together."""
    with ctx.db.begin() as tx:
        known = jobs.queued(tx)
    pools = {
        p.pool_name: QueuePool(p.scheduler.type, p.scheduler.default_priority)
        for p in ctx.config.resource_pools
    }
    answer = change_queue(known, pools, updates, int(ctx.now().timestamp() * 1_000_000))
    for change in answer.changes:
        _apply(ctx, change)
    if answer.refused is not None:
        raise Invalid(answer.refused.reason)


def _apply(ctx: Context, change: QueueChange) -> None:
    with ctx.db.autocommit() as tx:
        experiment_id = jobs.experiment_of(tx, UUID(change.job_id))
    if experiment_id is None:
        _apply_to_task(ctx, change)
        return
    with live.opened(ctx, experiment_id) as experiment:
        old_pool = experiment.row.pool
        jobs.change(experiment.tx, experiment.row.job_id, **_values(change))
        values = {
            "priority": change.priority,
            "weight": change.weight,
            "resource_pool": change.pool,
        }
        for name, value in values.items():
            if value is not None:
                experiments.set_config(experiment.tx, experiment.row.id, ["resources", name], value)
        if change.pool is not None and change.pool != old_pool:
            _move(experiment, change.pool)
        experiment.effects.queue_changed(old_pool)


def _move(experiment: LiveExperiment, pool: str) -> None:
    """What waits moves at once; what runs checkpoints, stops and is queued again in the new pool."""
    experiment.row.pool = pool
    allocations.move_queued(experiment.tx, experiment.row.job_id, pool)
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
        jobs.change(tx, UUID(change.job_id), **_values(change))
        for pool in ctx.config.resource_pools:
            queue.mark_dirty(tx, pool.pool_name)
    ctx.waker.wake("schedule")


def _values(change: QueueChange) -> dict[str, Any]:
    values = {
        "priority": change.priority, "weight": change.weight, "pool": change.pool,
        "position": change.position,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}
