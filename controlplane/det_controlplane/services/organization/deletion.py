"""Deleting projects and workspaces: their experiments go first, in the background."""

from typing import Any

from sqlalchemy import text

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.db.engine import Tx
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Unready, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.identity.principal import User
from det_controlplane.services.organization import projects, workspaces
from det_controlplane.services.use_case import change

_LEFT = text("SELECT id FROM experiments WHERE project_id = :id ORDER BY id")
_PROJECTS = text("SELECT id FROM projects WHERE workspace_id = :id ORDER BY id")
_STILL_DELETING = {
    "projects": text("SELECT 1 FROM projects WHERE id = :id AND state = 'DELETING'"),
    "workspaces": text("SELECT 1 FROM workspaces WHERE id = :id AND state = 'DELETING'"),
}
_DELETE_PROJECT = text("DELETE FROM projects WHERE id = :id")
_DELETE_TASKS = text(
    "DELETE FROM tasks WHERE job_id IN (SELECT id FROM jobs WHERE workspace_id = :id)"
)
_DELETE_POLICIES = text("DELETE FROM config_policies WHERE workspace_id = :id")
_DELETE_WORKSPACE = text("DELETE FROM workspaces WHERE id = :id")
_REGISTERED = text("""
    SELECT c.experiment_id, m.name, v.version FROM model_versions v JOIN models m ON m.id = v.model_id
    JOIN checkpoints c ON c.uuid = v.checkpoint_uuid JOIN experiments e ON e.id = c.experiment_id
    JOIN projects p ON p.id = e.project_id
    WHERE e.id = :experiment_id OR p.id = :project_id OR p.workspace_id = :workspace_id LIMIT 1
""")

_STARTED_FROM = text("""
    SELECT t.id, t.experiment_id, c.uuid FROM trials t JOIN checkpoints c ON c.uuid = t.warm_start_uuid
    JOIN experiments e ON e.id = c.experiment_id JOIN projects p ON p.id = e.project_id
    JOIN experiments o ON o.id = t.experiment_id JOIN projects op ON op.id = o.project_id
    WHERE t.ended_at IS NULL AND t.experiment_id <> c.experiment_id
      AND (e.id = :experiment_id OR p.id = :project_id OR p.workspace_id = :workspace_id)
      AND op.id <> :project_id AND op.workspace_id <> :workspace_id ORDER BY t.id LIMIT 1
""")


def delete_project(ctx: Context, caller: User, project_id: int) -> bool:
    """Whether it is gone already; otherwise it goes when its experiments have."""
    with change(ctx) as changed:
        tx = changed.tx
        pending = projects.begin_deletion(tx, caller, project_id)
        refuse_needed(tx, project_id=project_id)
        if pending:
            changed.later("delete_project", project_id=project_id)
        else:
            tx.execute(_DELETE_PROJECT, {"id": project_id})
    return not pending


def delete_workspace(ctx: Context, caller: User, workspace_id: int) -> bool:
    with change(ctx) as changed:
        tx = changed.tx
        pending = workspaces.begin_deletion(ctx, tx, caller, workspace_id)
        refuse_needed(tx, workspace_id=workspace_id)
        if pending:
            changed.later("delete_workspace", workspace_id=workspace_id)
        else:
            _remove_workspace(tx, workspace_id)
    return not pending


def refuse_needed(
    tx: Tx, *, experiment_id: int = 0, project_id: int = 0, workspace_id: int = 0
) -> None:
    """A checkpoint that a model version or a live trial needs is not lost by deleting what it belongs to."""
    params = {
        "experiment_id": experiment_id,
        "project_id": project_id,
        "workspace_id": workspace_id,
    }
    row = tx.execute(_REGISTERED, params).first()
    if row is not None:
        raise WrongState(
            f"a checkpoint of experiment {row.experiment_id} is version {row.version} of model '{row.name}':"
            " delete that version first"
        )
    row = tx.execute(_STARTED_FROM, params).first()
    if row is not None:
        raise WrongState(
            f"trial {row.id} of experiment {row.experiment_id} starts from its checkpoint {row.uuid}:"
            f" let that experiment end, or kill it, first"
        )


def project_effect(ctx: Context, payload: dict[str, Any]) -> None:
    """Called again until its experiments are gone."""
    project_id = int(payload["project_id"])
    with ctx.db.begin() as tx:
        if tx.execute(_STILL_DELETING["projects"], {"id": project_id}).scalar() is None:
            return
    _empty(ctx, project_id)
    with ctx.db.begin() as tx:
        tx.execute(_DELETE_PROJECT, {"id": project_id})


def workspace_effect(ctx: Context, payload: dict[str, Any]) -> None:
    workspace_id = int(payload["workspace_id"])
    with ctx.db.begin() as tx:
        if tx.execute(_STILL_DELETING["workspaces"], {"id": workspace_id}).scalar() is None:
            return
        ids = [r[0] for r in tx.execute(_PROJECTS, {"id": workspace_id}).all()]
    for project_id in ids:
        project_effect(ctx, {"project_id": project_id})
    with ctx.db.begin() as tx:
        _remove_workspace(tx, workspace_id)


def _empty(ctx: Context, project_id: int) -> None:
    with ctx.db.begin() as tx:
        left = [r[0] for r in tx.execute(_LEFT, {"id": project_id}).all()]
    for experiment_id in left:
        with live.opened(ctx, experiment_id) as experiment:
            if experiment.row.state is not ExperimentState.DELETING:
                experiment.set_state(ExperimentState.DELETING)
                experiment.effects.later("delete_experiment", experiment_id=experiment_id)
    if left:
        raise Unready(f"project {project_id}: {len(left)} experiments are being deleted")


def _remove_workspace(tx: Tx, workspace_id: int) -> None:
    params = {"id": workspace_id}
    for statement in (_DELETE_TASKS, _DELETE_POLICIES, _DELETE_WORKSPACE):
        tx.execute(statement, params)
