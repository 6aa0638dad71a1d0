"""Generic tasks: programs in trees, which are paused, continued and killed together."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from det_controlplane.core.config import TaskConfig, load_yaml
from det_controlplane.core.lifecycle import task as states
from det_controlplane.core.lifecycle.allocation import Signal
from det_controlplane.core.lifecycle.task import NAMES, GenericTaskState, NotAllowed, TaskKind
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.people.roles import Right
from det_controlplane.db.agents import lost_runs
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import submissions
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.scheduling.allocations import AllocationRow
from det_controlplane.db.tasks import generic_tasks, tasks
from det_controlplane.db.tasks.generic_tasks import AnyTask, GenericTask
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState, require_open
from det_controlplane.services.identity import task_rights
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.identity.route_rights import (
    UNCATEGORIZED,
    require_in,
    require_things,
)
from det_controlplane.services.money import spent_budgets
from det_controlplane.services.organization import projects
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.tasks import launching, lifecycle, programs
from det_controlplane.services.tasks.launching import Resolved, Submission
from det_controlplane.services.tasks.listing import SHOWN_AFTER_END
from det_controlplane.services.tasks.programs import Program, ProgramContext
from det_controlplane.services.use_case import Change, change

# A moved task gets no more children that would have to be moved; others, which run without pauses, may without end.
_PASSES = 20
_PAUSED = (GenericTaskState.STOPPING_PAUSED, GenericTaskState.PAUSED)
_SUBMITTED = "_submitted"
# Tells the state that a task is to have; raises NotAllowed where it cannot.
After = Callable[[GenericTask], GenericTaskState]


@dataclass(frozen=True, slots=True)
class NewGenericTask:
    """The submission of a generic task; `config` is text as its user wrote it."""

    config: str
    submission: Submission  # its files; the rest follows from the configuration and the project
    project_id: int = 0
    parent_id: str | None = None
    forked_from: str | None = None
    inherit_context: bool = False
    no_pause: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hold the configuration that a task would be launched with."""

    submission: Submission
    resolved: Resolved
    project_id: int
    submitted: Mapping[str, Any]  # the configuration that its user gave


@dataclass(frozen=True, slots=True)
class Created:
    task_id: str
    warnings: tuple[str, ...]
    exceeds_slots: bool


def create(ctx: Context, user: User, new: NewGenericTask) -> Created:
    """Queue a task. A fork without a configuration or files uses the configuration and files of its original."""
    repeated = launching.repeated(ctx, new.submission)
    if repeated is not None:
        return Created(repeated, (), False)
    ready = prepared(ctx, user, new)
    with launching.queued_task(
        ctx, user, ready.submission, ready.resolved, partial(_program, ready.submitted)
    ) as (
        changed,
        id,
    ):
        projects.keep_open(changed.tx, ready.project_id)
        if new.parent_id is not None:
            _require_open(changed.tx, new.parent_id, no_pause=new.no_pause)
        generic_tasks.settle(
            changed.tx, id, parent_id=new.parent_id, forked_from=new.forked_from,
            no_pause=new.no_pause, project_id=ready.project_id,
        )  # fmt: skip
    return Created(id, ready.resolved.warnings, ready.resolved.exceeds_slots)


def prepared(ctx: Context, user: User, new: NewGenericTask) -> Prepared:
    """Resolve a submitted configuration; raise if it may not be launched. Nothing is created."""
    parent = _relative(ctx, user, new.parent_id)
    original = _relative(ctx, user, new.forked_from)
    if parent is not None:
        # A tree is paused and killed together.
        require_owner(user, parent.user_id, "make children of the task")
    if new.inherit_context and parent is None:
        raise Invalid("inheritContext needs a parent task: name it by parentId")
    changes = _load_config(new)
    earlier = None if original is None else _earlier(ctx, user, original)
    config = _config(changes, earlier)
    project = submissions.project_by_id(ctx.db, new.project_id or UNCATEGORIZED)
    if project is None:
        raise Missing(f"project {new.project_id} not found")
    if project.id == UNCATEGORIZED:
        require_in(user, Right.CREATE_NSC, project.workspace_id)
    require_things(ctx, user, Right.VIEW_PROJECT, "project", [project.id])
    what = f"project {project.id}"
    if project.archived:
        raise Missing(f"{what} is archived: unarchive it, or choose another")
    require_open(what, archived=False, deleting=project.deleting)
    submission = replace(new.submission, config=config, workspace_id=project.workspace_id)
    source = parent if new.inherit_context else original
    if source is not None and not submission.files:
        submission = replace(submission, shared_context_id=source.context_id)
    resolved = launching.resolve(ctx, user, submission)
    submitted = config if changes or earlier is None else _submitted_config(earlier)
    return Prepared(submission, resolved, project.id, submitted)


def _program(submitted: Mapping[str, Any], config: TaskConfig, place: ProgramContext) -> Program:
    return replace(programs.of_command(config, place), settings={_SUBMITTED: dict(submitted)})


def _submitted_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a stored configuration as submitted. A task of an earlier version has the resolved one only."""
    submitted: Mapping[str, Any] = config.get(_SUBMITTED) or programs.shown(config)
    return submitted


def _relative(ctx: Context, user: User, task_id: str | None) -> GenericTask | None:
    if task_id is None:
        return None
    require_things(ctx, user, Right.VIEW_NSC, "task", [task_id])
    return _find(ctx, task_id)


def _load_config(new: NewGenericTask) -> dict[str, Any]:
    return dict(load_yaml(new.config, what="task configuration")) if new.config.strip() else {}


def _earlier(ctx: Context, user: User, original: GenericTask) -> Mapping[str, Any]:
    """Return the stored configuration of a forked task. Only tasks of its owner get the secrets."""
    if original.user_id != user.id:
        return original.config
    earlier: Mapping[str, Any] = sealing.unsealed(ctx, original.config, original.sealed)
    return earlier


def _config(changes: dict[str, Any], earlier: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if earlier is None:
        return changes
    current = programs.shown(earlier)
    return dict(sealing.completed(changes, current)) if changes else current


def _require_open(tx: Tx, parent_id: str, *, no_pause: bool) -> None:
    """Refuse a child if its parent has ended, is stopping, or is paused: the child would not stop with it."""
    parent = generic_tasks.lock(tx, parent_id)
    if (
        parent is None
        or parent.state.terminal
        or parent.state is GenericTaskState.STOPPING_CANCELED
    ):
        problem = "is gone" if parent is None else f"is {parent.state.value}"
        raise WrongState(f"task {parent_id} {problem}: it can have no more children")
    if not no_pause and parent.state in _PAUSED:
        raise WrongState(
            f"task {parent_id} is {parent.state.value}: unpause it first, or create a child that runs without pauses"
        )


def listed(
    ctx: Context, page: Page, sort: Sort, filters: dict[str, Any], *, tree_of: str
) -> Iterator[str]:
    """List tasks that are live or ended recently, or the whole tree of a task."""
    if not tree_of:
        recent = {"shown_since": ctx.now() - SHOWN_AFTER_END}
        return generic_tasks.listed(ctx.db, page, sort, {**recent, **filters})
    _find(ctx, tree_of)
    with ctx.db.autocommit() as tx:
        tree = generic_tasks.tree_below(tx, generic_tasks.root_of(tx, tree_of))
    return generic_tasks.listed(ctx.db, page, sort, {"ids": tree, **filters})


def config_of(ctx: Context, user: User, task_id: str) -> str:
    """Return the configuration that a task's user gave, as JSON. Its owner sees environment variables."""
    task = _find(ctx, task_id)
    config = task.config
    if user.is_person(task.user_id):
        config = sealing.as_seen_by_owner(ctx, config, task.sealed)
    return json.dumps(_submitted_config(config))


def kill(ctx: Context, user: User, task_id: str, *, from_root: bool) -> None:
    """End a task with all below it, or its whole tree."""
    _find(ctx, task_id)
    with ctx.db.autocommit() as tx:
        top = generic_tasks.root_of(tx, task_id) if from_root else task_id
    require_things(ctx, user, Right.UPDATE_NSC, "task", [top])
    task_rights.require_own_task(ctx, user, top)
    for id in _tree(ctx, user, top):
        end(ctx, id, f"on request of {user.username}")


def end(ctx: Context, task_id: str, reason: str) -> None:
    """End one task. The tasks below it continue.

    If it ended with a lost agent, it does not continue when the agent returns."""
    with change(ctx) as changed:
        lost_runs.end_for_good(changed.tx, task_id)
    _move(ctx, task_id, lambda task: states.after_kill(task.state), reason)


def pause(ctx: Context, user: User, task_id: str) -> None:
    """Pause a task and its descendants, except tasks that cannot pause."""
    reason = f"{user.username} paused it"
    _steer(
        ctx, user, task_id, lambda t: states.after_pause(t.state, may_pause=not t.no_pause), reason
    )


def unpause(ctx: Context, user: User, task_id: str) -> None:
    _steer(ctx, user, task_id, lambda task: states.after_unpause(task.state), "")


def _steer(ctx: Context, user: User, task_id: str, after: After, reason: str) -> None:
    """Change a task that supports the change, and its descendants that support it."""
    _find(ctx, task_id)
    for id in _tree(ctx, user, task_id):
        try:
            _move(ctx, id, after, reason)
        except NotAllowed as e:
            if id == task_id:
                raise WrongState(f"task {task_id} {e}") from e


def _tree(ctx: Context, user: User, task_id: str) -> Iterator[str]:
    """Yield a task and its descendants, parents first, then tasks that were created before their parent moved.

    Tasks in workspaces without the user's rights are left out: a tree gives no rights."""
    previous: set[str] = set()
    within = user.grants.workspaces(Right.UPDATE_NSC)
    for _ in range(_PASSES):
        with ctx.db.autocommit() as tx:
            tree = generic_tasks.tree_below(tx, task_id, within)
        new = [id for id in tree if id not in previous]
        if not new:
            return
        yield from new
        previous.update(new)


def _move(ctx: Context, task_id: str, after: After, reason: str) -> None:
    """Move a task towards another state, in a transaction of its own."""
    with change(ctx) as changed:
        tx = changed.tx
        # First, as the end of a run locks them in this order.
        allocation = allocations.live_of_restarted_task(tx, task_id)
        task = generic_tasks.lock(tx, task_id)
        if task is None:
            return
        target = after(task)
        if target is task.state:
            return
        generic_tasks.set_state(tx, task_id, target)
        if target is GenericTaskState.ACTIVE:
            _run_again(ctx, changed, task)
        elif target is GenericTaskState.CANCELED:
            sentence = f"canceled while it was paused: {reason}"
            tasks.end(tx, task_id, sentence, GenericTaskState.CANCELED, changed.now)
            changed.trial_ended(task_id)
        else:
            # A run that began before the task was locked was not there to be locked.
            allocation = allocation or allocations.live_of_restarted_task(tx, task_id)
            if allocation is not None:
                _stop(changed, allocation, target, reason)


def _stop(change: Change, allocation: AllocationRow, target: GenericTaskState, reason: str) -> None:
    is_pause = target is GenericTaskState.STOPPING_PAUSED
    exit = stopping.signal(
        change, allocation, Signal.TERMINATE if is_pause else Signal.KILL, reason
    )
    if exit is not None:
        lifecycle.allocation_ended(change, allocation, exit)


def _run_again(ctx: Context, change: Change, task: GenericTask) -> None:
    config = TaskConfig.load(programs.shown(task.config))
    if config.resources.slots:
        spent_budgets.require_task(ctx, change.tx, task.id)
    run_id = generic_tasks.last_run(change.tx, task.id) + 1
    lifecycle.request(
        change, task.id, task.job_id, run_id, task.pool, config.resources.slots,
        preempt_timeout_s=config.preemption_timeout,
    )  # fmt: skip


def _find(ctx: Context, task_id: str) -> GenericTask:
    with ctx.db.autocommit() as tx:
        task = generic_tasks.one(tx, task_id)
        other = generic_tasks.of_any_kind(tx, task_id) if task is None else None
    if task is not None:
        return task
    if other is None:
        raise Missing(f"task '{task_id}' not found")
    raise Invalid(f"task {task_id} is no generic task but {_other_task_name(other)}")


def _other_task_name(other: AnyTask) -> str:
    """Return the name of a task of another kind, with the commands for it."""
    if other.kind is TaskKind.TRIAL:
        pauses = f"`det experiment pause {other.experiment_id}` pauses its experiment"
        return f"trial {other.trial_id}: `det trial kill {other.trial_id}` kills it, {pauses}"
    name = NAMES.get(other.kind)
    if name is None:
        return f"a {other.kind.value.lower().replace('_', ' ')}: it ends by itself"
    return f"a {name}: `det {name} kill` ends it, and nothing pauses it"
