"""Delete experiments: `delete` refuses or promises it, `experiment_effect` does it after the commit.

services/maintenance/deletion.py deletes projects and workspaces, services/checkpoints/collection.py the files."""

from typing import Any

from det_controlplane.core.checkpoints import gc
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.db.cluster import outbox
from det_controlplane.db.experiments import deletions, experiments
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.checkpoints import collection
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Unfinished, Unready, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.maintenance.deletion import refuse_needed
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import change

# Between turns other work is done.
_PARTS_OF_A_TURN = 10


def delete(ctx: Context, user: User, experiment_id: int) -> None:
    """Mark an ended experiment for deletion, and promise it."""
    with live.locked_experiment(ctx, experiment_id) as experiment:
        row = experiment.row
        require_owner(user, row.user_id, f"delete experiment {experiment_id}")
        if row.state is ExperimentState.DELETING:
            return
        if not row.state.terminal:
            raise WrongState(
                f"experiment {experiment_id} is {row.state.value}; kill it, or wait until it has ended"
            )
        refuse_needed(experiment.tx, experiment_id=experiment_id)
        experiment.set_state(ExperimentState.DELETING)
        key = f"delete {ctx.new_uuid()}"
        experiment.change.later(EffectKind.DELETE_EXPERIMENT, experiment_id=experiment_id, key=key)


def experiment_effect(ctx: Context, payload: dict[str, Any]) -> None:
    """Delete an experiment's files, then its rows; called again until the files are gone."""
    experiment_id = payload["experiment_id"]
    key = str(payload.get("key", "delete experiment"))
    with ctx.db.begin() as tx:
        experiment = checkpoints.owner(tx, experiment_id)
        if experiment is None or experiment.state is not ExperimentState.DELETING:
            return
        doomed = collection.to_delete(tx, experiment_id, experiment.config, gc.Policy(0, 0, 0))
        doomed += checkpoints.unfinished(tx, experiment_id)
        queued = checkpoints.collections(tx, experiment_id, key)
    if experiment.has_trials and not queued:
        collection.launch(ctx, experiment, doomed, key=key, tensorboards=True)
    if experiment.has_trials and not (queued and all(task.ended_at for task in queued)):
        raise Unready(f"experiment {experiment_id}: its files are being deleted")
    if not (doomed and queued):
        _delete_trials(ctx, experiment_id)
    with change(ctx) as changed:
        tx = changed.tx
        if doomed and queued:
            logs = " and ".join(f"'det task logs {task.task_id}'" for task in queued)
            error = f"its checkpoints could not be deleted: see {logs}"
            experiments.deletion_failed(tx, experiment_id, error)
            outbox.hasten_deletions(tx, changed.now)
            return
        unused = deletions.delete_experiment(tx, experiment_id)
        if unused is not None:
            changed.later(EffectKind.DELETE_OBJECT, key=unused)
        outbox.hasten_deletions(tx, changed.now)


def _delete_trials(ctx: Context, experiment_id: int) -> None:
    """Delete the trials of an experiment part by part; raise Unfinished if that takes longer than a turn."""
    for _ in range(_PARTS_OF_A_TURN):
        with ctx.db.begin() as tx:
            if not deletions.delete_part(tx, experiment_id):
                return
    raise Unfinished(f"experiment {experiment_id}: its trials are being deleted")
