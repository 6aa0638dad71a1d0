"""Moving experiments between projects."""

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.db.experiments import experiments
from det_controlplane.db.scheduling import jobs
from det_controlplane.services.context import Context
from det_controlplane.services.errors import WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.identity.rights import require_removal
from det_controlplane.services.organization.projects import open_project
from det_controlplane.services.principal import User


def move(ctx: Context, caller: User, experiment_id: int, project_id: int) -> None:
    with live.locked_experiment(ctx, experiment_id) as experiment:
        tx, row = experiment.tx, experiment.row
        if experiments.is_archived(tx, experiment_id):
            raise WrongState(
                f"experiment {experiment_id} or its project is archived: unarchive it first"
            )
        if row.state is ExperimentState.DELETING:
            raise WrongState(f"experiment {experiment_id} is being deleted")
        project = open_project(tx, project_id)
        source = jobs.workspace_of(tx, row.job_id)
        what = f"experiment {experiment_id}"
        require_removal(caller, row.user_id, source, project.workspace_id, what)
        experiments.change(tx, experiment_id, project_id=project_id)
        jobs.change(tx, row.job_id, workspace_id=project.workspace_id)
