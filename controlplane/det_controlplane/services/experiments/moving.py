"""Moving experiments between projects."""

from sqlalchemy import text

from det_controlplane.services.context import Context
from det_controlplane.services.errors import WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.organization.projects import open_project

_ARCHIVED = text("""
    SELECT e.archived OR p.archived OR w.archived FROM experiments e JOIN projects p ON p.id = e.project_id
    JOIN workspaces w ON w.id = p.workspace_id WHERE e.id = :id
""")
_MOVE = text("UPDATE experiments SET project_id = :project_id WHERE id = :id")
_MOVE_JOB = text("UPDATE jobs SET workspace_id = :workspace_id WHERE id = :id")


def move(ctx: Context, experiment_id: int, project_id: int) -> None:
    with live.opened(ctx, experiment_id) as experiment:
        tx, row = experiment.tx, experiment.row
        if tx.execute(_ARCHIVED, {"id": experiment_id}).scalar():
            raise WrongState(
                f"experiment {experiment_id} or its project is archived: unarchive it first"
            )
        project = open_project(tx, project_id)
        tx.execute(_MOVE, {"id": experiment_id, "project_id": project_id})
        tx.execute(_MOVE_JOB, {"id": row.job_id, "workspace_id": project.workspace_id})
