"""Deleting checkpoints: what the policy of an ended experiment does not keep, and what users delete."""

import base64
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from det_controlplane.core import gc
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.metrics import number
from det_controlplane.db import checkpoints, deletions, experiments, queue
from det_controlplane.db.checkpoints import Chosen, Owner
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, Unready, WrongState
from det_controlplane.services.tasks import auxiliary
from det_controlplane.services.use_case import change

EVERYTHING = ("**/*",)
_ENTRY = ("python3", "-m", "determined.exec.entry")
_SPEC = "/run/determined/gc.json"


def after_experiment(ctx: Context, payload: dict[str, Any]) -> None:
    """The experiment has ended: queue the deletion of what its policy does not keep."""
    with ctx.db.begin() as tx:
        experiment = checkpoints.owner(tx, payload["experiment_id"])
        if experiment is None:
            return
        doomed = to_delete(tx, experiment.id, experiment.config)
    if doomed:
        _launch(ctx, experiment, doomed, key=str(payload.get("key", "end")))


def to_delete(
    tx: Tx, experiment_id: int, config: dict[str, Any], policy: gc.Policy | None = None
) -> list[UUID]:
    searcher = config["searcher"]
    found = [
        gc.Checkpoint(
            uuid=str(c.uuid), trial_id=c.trial_id, steps_completed=c.steps_completed,
            metric=_metric(c.metric), registered=c.kept,
        )
        for c in checkpoints.candidates(tx, experiment_id, searcher.get("metric") or "")
    ]  # fmt: skip
    smaller = bool(searcher.get("smaller_is_better", True))
    return [
        UUID(u) for u in gc.to_delete(found, policy or policy_of(config), smaller_is_better=smaller)
    ]


def policy_of(config: dict[str, Any]) -> gc.Policy:
    storage = config.get("checkpoint_storage") or {}
    return gc.Policy(
        save_experiment_best=int(storage.get("save_experiment_best") or 0),
        save_trial_best=int(storage.get("save_trial_best", 1)),
        save_trial_latest=int(storage.get("save_trial_latest", 1)),
    )


def _metric(raw: str | None) -> float | None:
    try:
        return None if raw is None else number(float(raw))
    except ValueError:
        return None


def delete(ctx: Context, uuids: Sequence[UUID], globs: Sequence[str] = EVERYTHING) -> None:
    """A user deletes checkpoints, or some files of them; without globs their storage is only looked through."""
    with ctx.db.begin() as tx:
        rows = checkpoints.chosen(tx, uuids)
    missing = set(uuids) - {r.uuid for r in rows}
    if missing:
        raise Missing(f"checkpoints not found: {', '.join(sorted(map(str, missing)))}")
    for row in rows:
        if row.registered:
            raise WrongState(
                f"checkpoint {row.uuid} is a registered model version: delete that first"
            )
    for group in _by_storage(rows):
        key = f"delete {ctx.new_uuid()}"
        with ctx.db.begin() as tx:
            experiment = checkpoints.owner(tx, group[0].experiment_id)
        if experiment is not None:
            doomed, storage = [r.uuid for r in group], group[0].storage
            _launch(ctx, experiment, doomed, key=key, globs=globs, storage=storage)


def _by_storage(rows: Sequence[Chosen]) -> list[list[Chosen]]:
    """A task has the storage of one experiment mounted, or another that its training code chose."""
    groups: dict[tuple[int, str], list[Chosen]] = {}
    for row in rows:
        groups.setdefault((row.experiment_id, as_json(row.storage)), []).append(row)
    return list(groups.values())


def delete_tensorboards(ctx: Context, experiment_id: int) -> None:
    """Of an ended experiment; its checkpoints stay."""
    with ctx.db.begin() as tx:
        experiment = checkpoints.owner(tx, experiment_id)
    if experiment is None:
        raise Missing(f"experiment {experiment_id} not found")
    if not experiment.state.terminal:
        raise WrongState(
            f"experiment {experiment_id} is {experiment.state.value} and still writes TensorBoard files:"
            " kill it, or wait until it has ended"
        )
    _launch(ctx, experiment, [], key=f"tensorboards {ctx.new_uuid()}", tensorboards=True)


def _launch(
    ctx: Context,
    experiment: Owner,
    doomed: Sequence[UUID],
    *,
    key: str,
    globs: Sequence[str] = EVERYTHING,
    tensorboards: bool = False,
    storage: dict[str, Any] | None = None,
) -> None:
    """One task a collection; the key makes a repeated effect harmless."""
    pool = ctx.config.default_aux_resource_pool
    where = storage or experiment.config.get("checkpoint_storage")
    work = {
        "storage": where,
        "checkpoints": [str(u) for u in doomed], "globs": list(globs),
        "experiment_id": experiment.id, "delete_tensorboards": tensorboards,
    }  # fmt: skip
    # In a file: a long list of checkpoints is larger than an environment variable may be.
    content = base64.b64encode(as_json(work).encode()).decode()
    config = {
        "_key": key,
        "_command": [
            *_ENTRY,
            "--",
            "python3",
            "-m",
            "determined.exec.gc_checkpoints",
            "--spec",
            _SPEC,
        ],
        "_files": [{"path": _SPEC, "mode": 0o600, "content_b64": content}],
        "checkpoint_storage": where,
        "environment": experiment.config.get("environment"),
    }
    with change(ctx) as changed:
        if checkpoints.collection(changed.tx, experiment.id, key) is not None:
            return
        auxiliary.launch(
            ctx, changed, kind="CHECKPOINT_GC", name=f"Checkpoint GC (Experiment {experiment.id})",
            config=config, pool=pool, slots=0, user_id=experiment.user_id,
            workspace_id=experiment.workspace_id, experiment_id=experiment.id,
        )  # fmt: skip


def delete_experiment(ctx: Context, payload: dict[str, Any]) -> None:
    """First its files, then its rows; called again until the files are gone."""
    experiment_id = payload["experiment_id"]
    key = str(payload.get("key", "delete experiment"))
    with ctx.db.begin() as tx:
        experiment = checkpoints.owner(tx, experiment_id)
        if experiment is None or experiment.state is not ExperimentState.DELETING:
            return
        doomed = to_delete(tx, experiment_id, experiment.config, gc.Policy(0, 0, 0))
        task = checkpoints.collection(tx, experiment_id, key)
    if task is None and experiment.has_trials:
        _launch(ctx, experiment, doomed, key=key, tensorboards=True)
    if experiment.has_trials and (task is None or task.ended_at is None):
        raise Unready(f"experiment {experiment_id}: its files are being deleted")
    with change(ctx) as changed:
        tx = changed.tx
        if doomed and task is not None:
            error = f"its checkpoints could not be deleted: see 'det task logs {task.task_id}'"
            experiments.deletion_failed(tx, experiment_id, error)
            return
        unused = deletions.delete_experiment(tx, experiment_id)
        if unused is not None:
            changed.later("delete_object", key=unused)
        queue.hasten_deletions(tx, changed.now)


def delete_object(ctx: Context, payload: dict[str, Any]) -> None:
    """The context of experiments that are all gone."""
    ctx.objects.delete(payload["key"])
