"""Change the job queue: decided as a whole, applied job by job under each experiment's lock."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from det_controlplane.core.config.policies import Policies
from det_controlplane.core.lifecycle.allocation import AllocationState, Signal
from det_controlplane.core.schedule.queue_changes import (
    QueueChange,
    QueuedJob,
    QueuePool,
    QueueUpdate,
    change_queue,
)
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import experiments
from det_controlplane.db.scheduling import allocations, jobs, pool_bindings
from det_controlplane.db.schema.enums import WorkloadType
from det_controlplane.db.trials import trials
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.organization import config_policies
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import capacity, stopping
from det_controlplane.services.use_case import change


def update(ctx: Context, caller: User, updates: Sequence[QueueUpdate]) -> None:
    """Make the updates that are allowed, then raise an error with the reasons of the others."""
    with ctx.db.begin() as tx:
        queue = _with_policies(tx, jobs.queued(tx), {u.job_id for u in updates})
        bound = pool_bindings.by_pool(tx)
    aimed_at = {u.resource_pool for u in updates}
    pools = {
        p.pool_name: QueuePool(
            p.scheduler.type,
            p.scheduler.default_priority,
            capacity.largest_agent(ctx, p) if p.pool_name in aimed_at else None,
            frozenset(bound.get(p.pool_name, ())),
            capacity.fault_of_pool(ctx, p, caller, [p.pool_name])
            if p.pool_name in aimed_at
            else "",
        )
        for p in ctx.config.resource_pools
    }
    answer = change_queue(queue, pools, updates, int(ctx.now().timestamp() * 1_000_000))
    for queue_change in answer.changes:
        _apply(ctx, queue_change)
    if answer.refused is not None:
        raise (Missing if answer.refused.is_missing else Invalid)(answer.refused.reason)


def _with_policies(tx: Tx, queue: list[QueuedJob], changing: set[str]) -> list[QueuedJob]:
    """Return the jobs. Jobs that change get the config policies of their kind and workspace."""
    in_force: dict[tuple[int, WorkloadType], Policies] = {}

    def completed(job: QueuedJob) -> QueuedJob:
        workload = WorkloadType.EXPERIMENT if job.is_experiment else WorkloadType.NTSC
        scope = (job.workspace_id, workload)
        if scope not in in_force:
            in_force[scope] = config_policies.in_force(tx, *scope)
        return replace(job, policies=in_force[scope])

    return [completed(job) if job.id in changing else job for job in queue]


def _apply(ctx: Context, queue_change: QueueChange) -> None:
    with ctx.db.autocommit() as tx:
        experiment_id = jobs.experiment_of(tx, UUID(queue_change.job_id))
    if experiment_id is None:
        _apply_to_task(ctx, queue_change)
        return
    with live.locked_experiment(ctx, experiment_id) as experiment:
        old_pool = experiment.row.pool
        jobs.change(experiment.tx, experiment.row.job_id, **_values(queue_change))
        values = {
            "priority": queue_change.priority,
            "weight": queue_change.weight,
            "resource_pool": queue_change.pool,
        }
        for name, value in values.items():
            if value is not None:
                experiments.set_config(experiment.tx, experiment.row.id, "resources", name, value)
        if queue_change.pool is not None and queue_change.pool != old_pool:
            _move(experiment, queue_change.pool)
        experiment.change.queue_changed(old_pool)


def _move(experiment: LiveExperiment, pool: str) -> None:
    """Move an experiment to another pool. Its running trials save checkpoints, stop and are queued there."""
    capacity.keep_open(experiment.ctx, experiment.tx, pool)
    experiment.row.pool = pool
    allocations.move_queued(experiment.tx, experiment.row.job_id, pool)
    live = trials.live(experiment.tx, experiment.row.id)
    rows = allocations.live_of_tasks(experiment.tx, [trial.task_id for trial in live])
    running = [row for row in rows if row.state is not AllocationState.QUEUED]
    reason = f"the experiment moves to resource pool {pool}"
    stopping.stop(experiment.change, running, Signal.TERMINATE, reason)
    experiment.change.queue_changed(pool)


def _apply_to_task(ctx: Context, queue_change: QueueChange) -> None:
    with change(ctx) as changed:
        jobs.change(changed.tx, UUID(queue_change.job_id), **_values(queue_change))
        for pool in ctx.config.resource_pools:
            changed.queue_changed(pool.pool_name)


def _values(queue_change: QueueChange) -> dict[str, Any]:
    values = {
        "priority": queue_change.priority, "weight": queue_change.weight, "pool": queue_change.pool,
        "position": queue_change.position,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}
