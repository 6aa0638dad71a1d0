"""Commands, notebooks, shells and TensorBoards: launch, look at, steer."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from det_controlplane.core.config import policies as policy_rules
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.core.queue import QueueUpdate
from det_controlplane.db import allocations, interactive
from det_controlplane.db.interactive import InteractiveTask
from det_controlplane.db.schema.enums import WorkloadType
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.identity.principal import User
from det_controlplane.services.organization import config_policies
from det_controlplane.services.scheduling import queueing, stopping
from det_controlplane.services.tasks import auxiliary, launching, programs
from det_controlplane.services.tasks.launching import Build, Submission
from det_controlplane.services.use_case import change

SHOWN_AFTER_END = timedelta(hours=24)
_PROGRAMS: dict[TaskKind, Build] = {TaskKind.COMMAND: programs.of_command}


@dataclass(frozen=True, slots=True)
class Told:
    """A task as a caller is told of it."""

    shown: dict[str, Any]
    config: dict[str, Any]
    warnings: tuple[str, ...] = ()
    exceeds_slots: bool = False


def launch(ctx: Context, user: User, submission: Submission) -> Told:
    resolved = launching.resolve(ctx, user, submission)
    build = _PROGRAMS[submission.kind]
    task_id = launching.launch(ctx, user, submission, resolved, build)
    told = get(ctx, submission.kind, task_id)
    return Told(told.shown, told.config, resolved.warnings, resolved.exceeds_slots)


def get(ctx: Context, kind: TaskKind, task_id: str) -> Told:
    task = _find(ctx, kind, task_id)
    return Told(task.shown, programs.shown(task.config))


def listed(
    ctx: Context, kind: TaskKind, page: Page, sort: Sort, filters: dict[str, Any]
) -> Iterator[str]:
    """List what has not ended, or not long ago."""
    recent = {"shown_since": ctx.now() - SHOWN_AFTER_END}
    return interactive.listed(ctx.db, kind, page, sort, {**recent, **filters})


def kill(ctx: Context, user: User, kind: TaskKind, task_id: str) -> Told:
    """End a task at once; one that has ended stays as it is."""
    _find(ctx, kind, task_id)
    with change(ctx) as changed:
        allocation = allocations.live_of_task(changed.tx, task_id)
        if allocation is not None:
            reason = f"on request of {user.username}"
            exit = stopping.signal(changed, allocation, Signal.KILL, reason)
            if exit is not None:
                auxiliary.allocation_ended(changed, allocation, exit)
    return get(ctx, kind, task_id)


def set_priority(ctx: Context, kind: TaskKind, task_id: str, priority: int) -> Told:
    task = _find(ctx, kind, task_id)
    if task.ended_at is not None:
        raise WrongState(f"{NAMES[kind]} '{task_id}' has ended: it has no priority to change")
    with ctx.db.autocommit() as tx:
        workload = WorkloadType.NTSC
        limits = config_policies.in_force(tx, task.workspace_id, workload).constraints
    broken = policy_rules.check_priority(priority, limits)
    if broken:
        raise InvalidConfig(broken, what="change")
    queueing.update(ctx, [QueueUpdate(str(task.job_id), priority=priority)])
    with change(ctx) as changed:
        interactive.set_resource(changed.tx, task_id, "priority", priority)
    return get(ctx, kind, task_id)


def _find(ctx: Context, kind: TaskKind, task_id: str) -> InteractiveTask:
    with ctx.db.autocommit() as tx:
        task = interactive.one(tx, kind, task_id)
    if task is None:
        raise Missing(f"{NAMES[kind]} '{task_id}' not found")
    return task
