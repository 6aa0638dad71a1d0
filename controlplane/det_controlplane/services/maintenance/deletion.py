"""Deleting projects and workspaces: their experiments go first, in the background."""

from collections.abc import Sequence
from typing import Any

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import deletions
from det_controlplane.db.experiments.deletions import Contents, Failure, LiveTask
from det_controlplane.db.people.workspaces import Kind, OwnedRow
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Unfinished, Unready, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.deletion import refuse_needed
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.organization import projects, workspaces
from det_controlplane.services.organization.workspaces import editable
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import Change, change

# Between turns other work is done.
EXPERIMENTS_OF_A_TURN, _PARTS_OF_A_TURN = 200, 10
_NAMED = 5  # as many tasks does a sentence name
_TRIED = (ExperimentState.DELETING, ExperimentState.DELETE_FAILED)


def delete_project(ctx: Context, caller: User, project_id: int) -> bool:
    """Return whether it is gone already; otherwise it goes when its experiments have."""
    with change(ctx) as changed:
        project = projects.locked(changed.tx, project_id)
        row = editable(project, caller, "delete", archived_too=True)
        _refuse_live_tasks(changed.tx, row)
        if _check(changed.tx, caller, row).experiments:
            _begin(ctx, changed, row)
            changed.later(EffectKind.DELETE_PROJECT, project_id=project_id)
            return False
        deletions.finish(changed.tx, row.kind, project_id)
    return True


def delete_workspace(ctx: Context, caller: User, workspace_id: int) -> bool:
    """Return whether it is gone already; otherwise its tasks are ended and deleted, and it goes with its last project.

    Models are not lost by surprise: a workspace with models stays."""
    with change(ctx) as changed:
        workspace = workspaces.locked(changed.tx, workspace_id)
        row = editable(workspace, caller, "delete", archived_too=True)
        models = deletions.count_models(changed.tx, workspace_id)
        if models:
            raise WrongState(
                f"workspace '{row.name}' has {models} models: delete or move them first"
            )
        has_projects = _check(changed.tx, caller, row).projects
        if has_projects or deletions.has_tasks(changed.tx, workspace_id):
            _begin(ctx, changed, row)
            changed.later(EffectKind.DELETE_WORKSPACE, workspace_id=workspace_id)
            return False
        deletions.finish(changed.tx, row.kind, workspace_id)
    return True


def _check(tx: Tx, caller: User, row: OwnedRow) -> Contents:
    """Return the contents of a project or workspace. Refuse if some are live, needed elsewhere or owned by another
    user."""
    contents = _contents(tx, row)
    _require_owned(tx, caller, row)
    refuse_needed(tx, **{f"{row.kind}_id": row.id})
    return contents


def _refuse_live_tasks(tx: Tx, row: OwnedRow) -> None:
    tasks = deletions.live_tasks(tx, row.kind, row.id)
    if not tasks:
        return
    commands = [f"`det {NAMES.get(task.kind, 'task')} kill {task.id}`" for task in tasks[:_NAMED]]
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    raise WrongState(
        f"{row.kind} '{row.name}' has {len(tasks)} tasks that have not ended; `det task list` shows them."
        f" Kill them first: {', '.join(commands)}{more}"
    )


def _contents(tx: Tx, row: OwnedRow) -> Contents:
    contents = deletions.contents(tx, row.kind, row.id)
    if contents.live:
        raise WrongState(
            f"{row.kind} '{row.name}' has {contents.live} experiments that have not ended: kill them first"
        )
    return contents


def _require_owned(tx: Tx, caller: User, row: OwnedRow) -> None:
    """Require that a caller may delete each experiment that goes along: others may have been moved there."""
    other = deletions.of_another(tx, row.kind, row.id, caller.id)
    if other is not None:
        experiment_id, owner_id = other
        what = f"delete {row.kind} '{row.name}', which has experiment {experiment_id}"
        require_owner(caller, owner_id, what)


def _begin(ctx: Context, changed: Change, row: OwnedRow) -> None:
    """Begin a deletion. Experiments with an earlier failed deletion are tried again."""
    deletions.begin(changed.tx, row.kind, row.id)
    for experiment_id in deletions.try_again(changed.tx, row.kind, row.id):
        _schedule(ctx, changed, experiment_id)


def _schedule(ctx: Context, changed: Change, experiment_id: int) -> None:
    key = f"delete {ctx.random.uuid()}"  # of this try: the tasks of another have ended
    changed.later(EffectKind.DELETE_EXPERIMENT, experiment_id=experiment_id, key=key)


def project_effect(ctx: Context, payload: dict[str, Any]) -> None:
    """Delete a project; called again until each of its experiments is gone, or could not be deleted."""
    project_id = int(payload["project_id"])
    with ctx.db.begin() as tx:
        if not deletions.is_under_way(tx, "project", project_id):
            return
        waiting = deletions.next_experiments(tx, project_id, EXPERIMENTS_OF_A_TURN)
    for experiment_id in waiting:
        _begin_deletion(ctx, project_id, experiment_id)
    with ctx.db.begin() as tx:
        if not deletions.is_under_way(tx, "project", project_id):
            return
        remaining = deletions.count_left(tx, project_id)
        if not remaining:
            _end(tx, "project", project_id, deletions.failed_experiments(tx, project_id))
            return
        reason = f"{remaining} experiments are being deleted"
        deletions.wait_for(tx, "project", project_id, reason)
    if len(waiting) == EXPERIMENTS_OF_A_TURN:
        raise Unfinished(f"project {project_id}: more experiments wait for their deletion")
    raise Unready(f"project {project_id}: {reason}")


def _begin_deletion(ctx: Context, project_id: int, experiment_id: int) -> None:
    with live.locked_experiment(ctx, experiment_id) as experiment:
        if experiment.row.state in _TRIED or not deletions.holds(
            experiment.tx, project_id, experiment_id
        ):
            return
        experiment.set_state(ExperimentState.DELETING)
        if experiment.row.state is ExperimentState.DELETING:
            _schedule(ctx, experiment.change, experiment_id)


def _end(tx: Tx, kind: Kind, id: int, failed: Sequence[Failure]) -> None:
    """Delete an empty project or workspace, or store the reason why it is not empty. Files may be unreachable until
    a person fixes their storage."""
    if not failed:
        deletions.finish(tx, kind, id)
        return
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    error = failed[0].error.removesuffix(_retry_hint("project"))
    deletions.fail(tx, kind, id, f"{failed[0].name}{more}: {error}{_retry_hint(kind)}")


def _retry_hint(kind: Kind) -> str:
    return f"; fix that, then delete the {kind} again"


def _end_tasks(ctx: Context, tasks: Sequence[LiveTask]) -> None:
    """Kill each task in a transaction of its own."""
    # They load the models of configurations, which a function that only reads experiments does not need.
    from det_controlplane.services.interactive import interactive
    from det_controlplane.services.tasks import generic

    for task in tasks:
        end = generic.end if task.kind is TaskKind.GENERIC else interactive.end
        end(ctx, task.id, "its workspace is being deleted")


def workspace_effect(ctx: Context, payload: dict[str, Any]) -> None:
    workspace_id = int(payload["workspace_id"])
    with ctx.db.begin() as tx:
        if not deletions.is_under_way(tx, "workspace", workspace_id):
            return
        ids = deletions.projects_left(tx, workspace_id)
        tasks = deletions.live_tasks(tx, "workspace", workspace_id)
    _end_tasks(ctx, tasks)
    for project_id in ids:
        project_effect(ctx, {"project_id": project_id})
    for _ in range(_PARTS_OF_A_TURN):
        if _end_workspace(ctx, workspace_id):
            return
    raise Unfinished(f"workspace {workspace_id}: its ended tasks are being deleted")


def _end_workspace(ctx: Context, workspace_id: int) -> bool:
    """Delete a workspace without projects, or some of its ended tasks; return whether the deletion is over."""
    with change(ctx) as changed:
        tx = changed.tx
        # A task that was being launched when the deletion began holds the row: the lock waits for it.
        workspaces.locked(tx, workspace_id)
        running = deletions.live_tasks(tx, "workspace", workspace_id)
        failed = deletions.failed_projects(tx, workspace_id)
        if deletions.has_projects_to_delete(tx, workspace_id):  # by somebody who tries again
            reason = f"workspace {workspace_id}: a project is being deleted"
        elif running and not failed:
            ids_of_tasks = ", ".join(task.id for task in running[:_NAMED])
            reason = f"{len(running)} tasks are being ended: {ids_of_tasks}"
            deletions.wait_for(tx, "workspace", workspace_id, reason)
        elif not failed and _delete_tasks(changed, workspace_id):
            return False
        else:
            _end(tx, "workspace", workspace_id, failed)
            return True
    raise Unready(reason)


def _delete_tasks(changed: Change, workspace_id: int) -> bool:
    """Delete some tasks of a workspace, or lines of their logs; return whether there were any."""
    part = deletions.delete_tasks(changed.tx, workspace_id)
    for key in part.unused:
        changed.later(EffectKind.DELETE_OBJECT, key=key)
    return not part.is_last
