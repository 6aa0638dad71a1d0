"""Delete experiments: `delete` refuses or promises it, `experiments_effect` does it after the commit.

services/maintenance/deletion.py deletes projects and workspaces, services/checkpoints/collection.py the files."""

import logging
from collections.abc import Sequence
from typing import Any

from det_controlplane.core.checkpoints import gc
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.db.checkpoints.checkpoints import Collection
from det_controlplane.db.cluster import outbox
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import DatabaseDown, TryAgain
from det_controlplane.db.experiments import deletion_parts, deletions, experiments
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.checkpoints import collection
from det_controlplane.services.checkpoints.collection import Doomed
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Unfinished, Unready, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import change

# Between turns other work is done.
_ROWS_OF_A_TURN = 10 * deletion_parts.PART_ROWS
log = logging.getLogger("det.outbox")


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
        key = f"delete {ctx.random.uuid()}"
        experiment.change.later(EffectKind.DELETE_EXPERIMENT, experiment_id=experiment_id, key=key)


def experiments_effect(ctx: Context, payload: dict[str, Any]) -> None:
    """Delete the files of experiments, then their rows; called again until all are gone.

    An earlier version wrote payloads with one `experiment_id`."""
    ids = payload.get("experiment_ids") or [payload["experiment_id"]]
    key = str(payload.get("key", "delete experiment"))
    with ctx.db.begin() as tx:
        queued = checkpoints.collections(tx, ids, key)
        _require_ended(ids, queued)
        doomed = _find_doomed(tx, ids)
    with_files = [one for one in doomed if one.experiment.has_trials]
    if with_files and not queued:
        collection.launch_all(ctx, with_files, key=key, tensorboards=True)
        raise Unready(f"experiments {ids}: their files are being deleted")
    # A task is deleted with the experiment that it belongs to, so these experiments are the last.
    owners = {task.experiment_id for task in queued}
    doomed.sort(key=lambda one: one.experiment.id in owners)
    # Failures come first, because they keep the logs of tasks that other experiments would take along.
    failed = [one for one in doomed if queued and one.checkpoints]
    for one in failed:
        _fail(ctx, one.experiment.id, queued, key)
    _delete_all(ctx, [one for one in doomed if one not in failed])
    with ctx.db.begin() as tx:
        outbox.hasten_places(tx, ctx.now())


def _require_ended(ids: Sequence[int], queued: Sequence[Collection]) -> None:
    running = [task.task_id for task in queued if task.ended_at is None]
    if running:
        raise Unready(f"experiments {ids}: their files are being deleted by {', '.join(running)}")


def _find_doomed(tx: Tx, ids: Sequence[int]) -> list[Doomed]:
    """Return all checkpoints of those experiments that are being deleted."""
    checkpoints_by_experiment = []
    for id in ids:
        experiment = checkpoints.owner(tx, id)
        if experiment is not None and experiment.state is ExperimentState.DELETING:
            uuids = collection.to_delete(tx, id, experiment.config, gc.Policy(0, 0, 0))
            checkpoints_by_experiment.append(
                Doomed(experiment, [*uuids, *checkpoints.unfinished(tx, id)])
            )
    return checkpoints_by_experiment


def _fail(ctx: Context, id: int, queued: Sequence[Collection], key: str) -> None:
    """Show that the checkpoints of an experiment could not be deleted, unless a user has asked for its deletion again."""
    failed = [task.task_id for task in queued if not task.succeeded]
    failed = failed or [task.task_id for task in queued]
    logs = " and ".join(f"'det task logs {task_id}'" for task_id in failed)
    error = f"its checkpoints could not be deleted: see {logs}"
    with ctx.db.begin() as tx:
        if not outbox.has_later_deletion(tx, id, key):
            experiments.deletion_failed(tx, id, error)
            checkpoints.move_collections(tx, failed, id)


def _delete_all(ctx: Context, doomed: Sequence[Doomed]) -> None:
    """Delete rows of experiments; raise Unfinished if that takes longer than a turn.

    An error of one experiment is raised after the others were deleted."""
    remaining, failure = _ROWS_OF_A_TURN, None
    for one in doomed:
        try:
            remaining -= _delete_parts(ctx, one.experiment.id, remaining)
        except (DatabaseDown, TryAgain, Unfinished):
            raise
        except Exception as e:
            id = one.experiment.id
            log.exception("experiment %d could not be deleted", id, extra={"experiment_id": id})
            failure = e
    if failure is not None:
        raise failure


def _delete_parts(ctx: Context, experiment_id: int, most: int) -> int:
    """Delete an experiment part by part and return how many rows went; raise Unfinished at the first part beyond `most`."""
    rows = 0
    while True:
        if rows >= most:
            raise Unfinished(f"experiment {experiment_id}: its trials are being deleted")
        with ctx.db.begin() as tx:
            deleted = deletion_parts.delete_part(tx, experiment_id)
        if not deleted:
            break
        rows += deleted
    with change(ctx) as changed:
        unused = deletion_parts.delete_experiment(changed.tx, experiment_id)
        if unused is not None:
            changed.later(EffectKind.DELETE_OBJECT, key=unused)
    return rows


def refuse_needed(
    tx: Tx, *, experiment_id: int = 0, project_id: int = 0, workspace_id: int = 0
) -> None:
    """Refuse to lose a checkpoint that a model version or a live trial needs."""
    scope = {
        "experiment_id": experiment_id, "project_id": project_id, "workspace_id": workspace_id,
    }  # fmt: skip
    version = deletions.registered_checkpoint(tx, scope)
    if version is not None:
        raise WrongState(
            f"a checkpoint of experiment {version.experiment_id} is version {version.version} of model"
            f" '{version.model}': delete that version first"
        )
    trial = deletions.started_trial(tx, scope)
    if trial is not None:
        raise WrongState(
            f"trial {trial.id} of experiment {trial.experiment_id} starts from its checkpoint {trial.checkpoint}:"
            f" let that experiment end, or kill it, first"
        )
