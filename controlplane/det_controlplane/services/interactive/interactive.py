"""Commands, notebooks, shells and TensorBoards: launch, look at, steer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from det_controlplane.core.lifecycle.allocation import Signal
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.schedule.queue_changes import QueueUpdate
from det_controlplane.core.secrets import redacted
from det_controlplane.db.agents import lost_runs
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.tasks import proxies, tasks
from det_controlplane.db.tasks.tasks import InteractiveTask
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Invalid, Missing, WrongState
from det_controlplane.services.identity import task_rights
from det_controlplane.services.principal import User
from det_controlplane.services.queue import queue_changes
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.tasks import access, launching, lifecycle, programs, tensorboards
from det_controlplane.services.tasks.launching import Build, Submission
from det_controlplane.services.tasks.listing import SHOWN_AFTER_END
from det_controlplane.services.use_case import change

_PROGRAMS: dict[TaskKind, Build] = {
    TaskKind.COMMAND: programs.of_command,
    TaskKind.NOTEBOOK: programs.of_notebook,
    TaskKind.SHELL: programs.of_shell,
}
_RECORD_INTERVAL = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """A task as the API answers it."""

    shown: dict[str, Any]
    config: dict[str, Any]
    warnings: tuple[str, ...] = ()
    exceeds_slots: bool = False


def launch(ctx: Context, user: User, submission: Submission) -> TaskAnswer:
    """Launch a task; a repetition of the request finds the one that its first try made."""
    repeated = launching.repeated(ctx, submission)
    if repeated is not None:
        return get(ctx, user, submission.kind, repeated)
    return _launch_task(ctx, user, submission, _PROGRAMS[submission.kind])


def launch_tensorboard(
    ctx: Context, user: User, submission: Submission, wanted: tensorboards.TensorBoardRequest
) -> TaskAnswer:
    """Launch a TensorBoard. Without an image of its user, it runs in the image of the newest experiment."""
    repeated = launching.repeated(ctx, submission)
    if repeated is not None:
        return get(ctx, user, submission.kind, repeated)
    drawing = tensorboards.find(ctx, user, wanted)
    submission = _with_experiment_image(ctx, user, submission, drawing)
    return _launch_task(ctx, user, submission, tensorboards.building(ctx, user, drawing))


def _with_experiment_image(
    ctx: Context, user: User, submission: Submission, drawing: tensorboards.TensorBoardSources
) -> Submission:
    """Complete the request of a TensorBoard with settings of its experiments."""
    environment = submission.config.get("environment") or {}
    if not isinstance(environment, Mapping) or environment.get("image"):
        return submission
    filled = {**tensorboards.environment_of(ctx, user, drawing), **environment}
    return replace(submission, config={**submission.config, "environment": filled})


def _launch_task(ctx: Context, user: User, submission: Submission, build: Build) -> TaskAnswer:
    resolved = launching.resolve(ctx, user, submission)
    task_id = launching.launch(ctx, user, submission, resolved, build)
    task = _find(ctx, submission.kind, task_id)
    view = _with_access(ctx, submission.kind, task_id, task)
    config = programs.shown(task.config)
    return TaskAnswer(view, config, resolved.warnings, resolved.exceeds_slots)


def preview(ctx: Context, user: User, submission: Submission) -> TaskAnswer:
    """Return the configuration that a launch would use, without launching it."""
    resolved = launching.resolve(ctx, user, submission)
    blank = {
        "id": "", "description": resolved.config.description, "state": "STATE_UNSPECIFIED", "startTime": ctx.now().isoformat().replace("+00:00", "Z"),
        "container": None, "username": user.username, "displayName": "", "userId": user.id,
        "resourcePool": resolved.pool.pool_name, "exitStatus": "", "jobId": "", "serviceAddress": "",
        "workspaceId": resolved.workspace.workspace_id,
    }  # fmt: skip
    # Pools, templates and policies may add secrets to the configuration.
    config = redacted(programs.shown_of(submission.kind, resolved.config))
    return TaskAnswer(blank, config, resolved.warnings, resolved.exceeds_slots)


def preview_tensorboard(
    ctx: Context, user: User, submission: Submission, wanted: tensorboards.TensorBoardRequest
) -> TaskAnswer:
    """Return the configuration that a launch would resolve; raises where something to show is missing or not visible."""
    drawing = tensorboards.find(ctx, user, wanted)
    tensorboards.building(ctx, user, drawing)
    return preview(ctx, user, _with_experiment_image(ctx, user, submission, drawing))


def get(ctx: Context, user: User, kind: TaskKind, task_id: str) -> TaskAnswer:
    """Return a task, to its owner with the values of environment variables. Its owner and administrators also get the
    token that opens it, but administrators do not get its code.

    The audit log records once an hour that an administrator got the token of another user's task, because pages ask
    repeatedly."""
    task = _find(ctx, kind, task_id)
    config = programs.shown(task.config)
    if user.is_person(task.user_id):
        config = sealing.as_seen_by_owner(ctx, config, task.sealed)
    may_open = user.allocation_id is None or user.task_id == task_id
    if not may_open or (user.id != task.user_id and not user.admin):
        return TaskAnswer(task.shown, config)
    view = _with_access(ctx, kind, task_id, task)
    if user.id != task.user_id and view is not task.shown:
        ctx.recorder.record_opening(ctx.db, again_after=_RECORD_INTERVAL)
    return TaskAnswer(view, config)


def terminal(ctx: Context, user: User, task_id: str) -> tuple[str, str]:
    """Return the address of a shell's terminals and its token, with the same checks as for its private key."""
    task = _find(ctx, TaskKind.SHELL, task_id)
    if user.id != task.user_id and not user.admin:
        raise Forbidden(
            f"shell '{task_id}' is of another user: its owner and administrators open it"
        )
    if task.ended_at is not None:
        raise WrongState(f"shell '{task_id}' has ended: start another")
    proxied = proxies.of_task(ctx.db, task_id)
    port = None if proxied is None else programs.terminal_port(proxied.proxies)
    config = sealing.unsealed(ctx, task.config, task.sealed)
    token = programs.terminal_token(config)
    if port is None or token is None:
        raise WrongState(
            f"shell '{task_id}' has no terminal for browsers: it has a program of its own, or is from before an upgrade"
            " of the cluster. Use 'det shell open'"
        )
    if user.id != task.user_id:
        ctx.recorder.record_opening(ctx.db)
    return f"/proxy/{task_id}:{port}/", token


def _with_access(
    ctx: Context, kind: TaskKind, task_id: str, task: InteractiveTask
) -> dict[str, Any]:
    """Return a task as it is shown, with the key of a shell or the address that has a token."""
    address = task.shown.get("serviceAddress")
    if address is None and kind is not TaskKind.SHELL:
        return task.shown
    config = sealing.unsealed(ctx, task.config, task.sealed)
    if address is None:
        return {**task.shown, "privateKey": config["_shell"]["private_key"]}
    token = access.token_of(ctx, task_id, config, task.access_key)
    return {**task.shown, "serviceAddress": f"{address}?token={token}"} if token else task.shown


def listed(
    ctx: Context, kind: TaskKind, page: Page, sort: Sort, filters: dict[str, Any]
) -> Iterator[str]:
    """List tasks that are live or ended recently."""
    recent = {"shown_since": ctx.now() - SHOWN_AFTER_END}
    return tasks.listed(ctx.db, kind, page, sort, {**recent, **filters})


def kill(ctx: Context, user: User, kind: TaskKind, task_id: str) -> TaskAnswer:
    """End a task at once. If it ended with a lost agent, it does not continue when the agent returns."""
    _find(ctx, kind, task_id)
    end(ctx, task_id, f"on request of {user.username}")
    return _read_task(ctx, kind, task_id)


def end(ctx: Context, task_id: str, reason: str) -> None:
    with change(ctx) as changed:
        lost_runs.end_for_good(changed.tx, task_id)
        allocation = allocations.live_of_restarted_task(changed.tx, task_id)
        if allocation is not None:
            exit = stopping.signal(changed, allocation, Signal.KILL, reason)
            if exit is not None:
                lifecycle.allocation_ended(changed, allocation, exit)


def set_priority(
    ctx: Context, user: User, kind: TaskKind, task_id: str, priority: int
) -> TaskAnswer:
    task = _find(ctx, kind, task_id)
    if task.ended_at is not None:
        raise WrongState(f"{NAMES[kind]} '{task_id}' has ended: it has no priority to change")
    try:
        queue_changes.update(ctx, user, [QueueUpdate(str(task.job_id), priority=priority)])
    except (Invalid, Missing) as e:
        message = str(e).replace(f"job {task.job_id}", f"{NAMES[kind]} {task_id}")
        raise type(e)(message) from e
    with change(ctx) as changed:
        tasks.set_resource(changed.tx, task_id, "priority", priority)
    return _read_task(ctx, kind, task_id)


def _read_task(ctx: Context, kind: TaskKind, task_id: str) -> TaskAnswer:
    """Return a changed task without its access token."""
    task = _find(ctx, kind, task_id)
    return TaskAnswer(task.shown, programs.shown(task.config))


def report_idle(ctx: Context, user: User, task_id: str, *, idle: bool) -> None:
    """Store a notebook's report about activity. Its own program or its owner may send it."""
    task_rights.require_task(ctx, user, task_id)
    _find(ctx, TaskKind.NOTEBOOK, task_id)
    if not idle:
        with ctx.db.autocommit() as tx:
            tasks.note_activity(tx, task_id, ctx.now())


def _find(ctx: Context, kind: TaskKind, task_id: str) -> InteractiveTask:
    with ctx.db.autocommit() as tx:
        task = tasks.one(tx, kind, task_id)
    if task is None:
        raise Missing(f"{NAMES[kind]} '{task_id}' not found")
    return task
