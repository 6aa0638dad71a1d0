"""Looking at tasks and allocations."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.db.tasks import task_views, tasks
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

SHOWN_AFTER_END = timedelta(hours=24)


def allocation(ctx: Context, allocation_id: str) -> dict[str, Any]:
    view = task_views.allocation(ctx.db, allocation_id)
    if view is None:
        raise Missing(f"allocation '{allocation_id}' not found")
    return view


def task(ctx: Context, task_id: str) -> dict[str, Any]:
    view = task_views.task(ctx.db, task_id)
    if view is None:
        raise Missing(f"task '{task_id}' not found")
    return view


def accelerators(ctx: Context, task_id: str) -> list[dict[str, Any]]:
    task(ctx, task_id)
    return task_views.accelerators(ctx.db, task_id)


def live_allocations(ctx: Context, within: Sequence[int] | None) -> str:
    schedulers = {p.pool_name: p.scheduler for p in ctx.config.resource_pools}
    return task_views.live_allocations(ctx.db, schedulers, within)


def running(ctx: Context, within: Sequence[int] | None) -> dict[TaskKind, int]:
    """Return the number of live tasks of each kind, without trials."""
    return tasks.running(ctx.db, within)
