"""Commands, notebooks, shells and TensorBoards: launch, look at, steer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from det_controlplane.core.config import policies as policy_rules
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.core.queue_changes import QueueUpdate
from det_controlplane.core.secrets import redacted
from det_controlplane.db import allocations, interactive
from det_controlplane.db.interactive import InteractiveTask
from det_controlplane.db.schema.enums import WorkloadType
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.identity import task_rights
from det_controlplane.services.identity.principal import User
from det_controlplane.services.organization import config_policies
from det_controlplane.services.scheduling import queue_changes, stopping
from det_controlplane.services.tasks import access, auxiliary, launching, programs, tensorboards
from det_controlplane.services.tasks.launching import Build, Submission
from det_controlplane.services.tasks.listing import SHOWN_AFTER_END
from det_controlplane.services.use_case import change

_PROGRAMS: dict[TaskKind, Build] = {
    TaskKind.COMMAND: programs.of_command,
    TaskKind.NOTEBOOK: programs.of_notebook,
    TaskKind.SHELL: programs.of_shell,
}


@dataclass(frozen=True, slots=True)
class Told:
    """A task as a caller is told of it."""

    shown: dict[str, Any]
    config: dict[str, Any]
    warnings: tuple[str, ...] = ()
    exceeds_slots: bool = False


def launch(ctx: Context, user: User, submission: Submission) -> Told:
    """Launch a task; a repetition of the request finds the one that its first try made."""
    repeated = launching.repeated(ctx, submission)
    if repeated is not None:
        return get(ctx, user, submission.kind, repeated)
    return _launched(ctx, user, submission, _PROGRAMS[submission.kind])


def launch_tensorboard(
    ctx: Context, user: User, submission: Submission, wanted: tensorboards.Wanted
) -> Told:
    """Launch a TensorBoard; where its user names no image, it runs in that of the newest experiment."""
    repeated = launching.repeated(ctx, submission)
    if repeated is not None:
        return get(ctx, user, submission.kind, repeated)
    drawing = tensorboards.find(ctx, user, wanted)
    environment = submission.config.get("environment")
    if environment is None or isinstance(environment, Mapping):
        filled = {**drawing.environment, **(environment or {})}
        submission = replace(submission, config={**submission.config, "environment": filled})
    return _launched(ctx, user, submission, tensorboards.building(ctx, user, drawing))


def _launched(ctx: Context, user: User, submission: Submission, build: Build) -> Told:
    resolved = launching.resolve(ctx, user, submission)
    task_id = launching.launch(ctx, user, submission, resolved, build)
    task = _find(ctx, submission.kind, task_id)
    shown = _with_what_opens(ctx, submission.kind, task_id, task)
    config = programs.shown(task.config)
    return Told(shown, config, resolved.warnings, resolved.exceeds_slots)


def preview(ctx: Context, user: User, submission: Submission) -> Told:
    """Return what a launch would resolve a configuration to; nothing is made."""
    resolved = launching.resolve(ctx, user, submission)
    blank = {
        "id": "", "description": resolved.config.description, "state": "STATE_UNSPECIFIED", "startTime": ctx.now().isoformat().replace("+00:00", "Z"),
        "container": None, "username": user.username, "displayName": "", "userId": user.id,
        "resourcePool": resolved.pool.pool_name, "exitStatus": "", "jobId": "", "serviceAddress": "",
        "workspaceId": resolved.workspace.workspace_id,
    }  # fmt: skip
    # Pools, templates and policies put their own secrets into what is asked for.
    config = redacted(resolved.config.to_json())
    return Told(blank, config, resolved.warnings, resolved.exceeds_slots)


def get(ctx: Context, user: User, kind: TaskKind, task_id: str) -> Told:
    """Return a task; its owner, and administrators, are also told what opens it, but not the code of their other tasks."""
    task = _find(ctx, kind, task_id)
    is_told = user.allocation_id is None or user.task_id == task_id
    if is_told and (user.id == task.user_id or user.admin):
        return Told(_with_what_opens(ctx, kind, task_id, task), programs.shown(task.config))
    return Told(task.shown, programs.shown(task.config))


def _with_what_opens(
    ctx: Context, kind: TaskKind, task_id: str, task: InteractiveTask
) -> dict[str, Any]:
    """Return a task as it is shown, with the key of a shell or the address that has a token."""
    if kind is TaskKind.SHELL:
        stored = sealing.opened(ctx, task.config, task.sealed)
        return {**task.shown, "privateKey": stored["_shell"]["private_key"]}
    if "serviceAddress" in task.shown:
        token = access.token_of(ctx, task_id, task.access_key)
        return {**task.shown, "serviceAddress": f"{task.shown['serviceAddress']}?token={token}"}
    return task.shown


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
        allocation = allocations.live_of_restarted_task(changed.tx, task_id)
        if allocation is not None:
            reason = f"on request of {user.username}"
            exit = stopping.signal(changed, allocation, Signal.KILL, reason)
            if exit is not None:
                auxiliary.allocation_ended(changed, allocation, exit)
    return get(ctx, user, kind, task_id)


def set_priority(ctx: Context, user: User, kind: TaskKind, task_id: str, priority: int) -> Told:
    task = _find(ctx, kind, task_id)
    if task.ended_at is not None:
        raise WrongState(f"{NAMES[kind]} '{task_id}' has ended: it has no priority to change")
    with ctx.db.autocommit() as tx:
        workload = WorkloadType.NTSC
        limits = config_policies.in_force(tx, task.workspace_id, workload).constraints
    broken = policy_rules.check_priority(priority, limits)
    if broken:
        raise InvalidConfig(broken, what="change")
    queue_changes.update(ctx, [QueueUpdate(str(task.job_id), priority=priority)])
    with change(ctx) as changed:
        interactive.set_resource(changed.tx, task_id, "priority", priority)
    return get(ctx, user, kind, task_id)


def report_idle(ctx: Context, user: User, task_id: str, *, idle: bool) -> None:
    """Take a notebook's report of whether anything works in it; its own program tells, or its owner."""
    task_rights.require_task(ctx, user, task_id)
    _find(ctx, TaskKind.NOTEBOOK, task_id)
    if not idle:
        with ctx.db.autocommit() as tx:
            interactive.note_activity(tx, task_id, ctx.now())


def _find(ctx: Context, kind: TaskKind, task_id: str) -> InteractiveTask:
    with ctx.db.autocommit() as tx:
        task = interactive.one(tx, kind, task_id)
    if task is None:
        raise Missing(f"{NAMES[kind]} '{task_id}' not found")
    return task
