"""Delete checkpoints that exceed the policy of an ended experiment, and checkpoints that users delete."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from det_controlplane.core.agent_protocol import ENTRY
from det_controlplane.core.checkpoints import gc
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.core.trials.metrics import number
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.db.checkpoints.checkpoints import Owner
from det_controlplane.db.cluster import backups
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.experiments import experiments
from det_controlplane.db.tasks import tasks
from det_controlplane.db.tasks.tasks import NewTask
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import DeletionsHeld, Missing, WrongState
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.principal import User
from det_controlplane.services.tasks import lifecycle
from det_controlplane.services.use_case import Change, change

EVERYTHING = ("**/*",)
# An upload counts as interrupted if its allocation ended longer ago than this, also if its agent was unreachable.
CUT_OFF_AFTER = timedelta(days=1)
_TRIES, _AT_ONCE = 7, 100
_SPEC = "/run/determined/gc.json"
_COMMAND = (
    *(*ENTRY, "--"),
    *("python3", "-m", "determined.exec.gc_checkpoints", "--spec", _SPEC),
)


def after_experiment(ctx: Context, payload: dict[str, Any]) -> None:
    """Queue the deletion of checkpoints that the policy of an ended experiment does not keep."""
    with ctx.db.begin() as tx:
        experiment = checkpoints.owner(tx, payload["experiment_id"])
        if experiment is None:
            return
        doomed = to_delete(tx, experiment.id, experiment.config)
    if doomed:
        launch(ctx, experiment, doomed, key=str(payload.get("key", "end")))


def to_delete(
    tx: Tx, experiment_id: int, config: dict[str, Any], policy: gc.Policy | None = None
) -> list[UUID]:
    searcher = config["searcher"]
    candidates = [
        gc.Checkpoint(
            uuid=str(c.uuid), trial_id=c.trial_id, steps_completed=c.steps_completed,
            metric=_metric(c.metric), registered=c.kept,
        )
        for c in checkpoints.candidates(tx, experiment_id, searcher.get("metric") or "")
    ]  # fmt: skip
    smaller = bool(searcher.get("smaller_is_better", True))
    return [
        UUID(u)
        for u in gc.to_delete(candidates, policy or gc.policy_of(config), smaller_is_better=smaller)
    ]


def _metric(raw: str | None) -> float | None:
    try:
        return None if raw is None else number(float(raw))
    except ValueError:
        return None


def delete(ctx: Context, uuids: Sequence[UUID], globs: Sequence[str] = EVERYTHING) -> None:
    """Delete checkpoints, or some files of them; without globs their storage is only looked through."""
    with ctx.db.begin() as tx:
        rows = checkpoints.chosen(tx, uuids)
    missing = set(uuids) - {r.uuid for r in rows}
    if missing:
        raise Missing(f"checkpoints not found: {', '.join(sorted(map(str, missing)))}")
    for row in rows:
        if row.uploading:
            raise WrongState(
                f"checkpoint {row.uuid} is being uploaded: delete it when it is complete"
            )
        if row.registered:
            raise WrongState(
                f"checkpoint {row.uuid} is a registered model version: delete that first"
            )
    of_experiments: dict[int, list[UUID]] = {}
    for row in rows:
        of_experiments.setdefault(row.experiment_id, []).append(row.uuid)
    for experiment_id, doomed in of_experiments.items():
        with ctx.db.begin() as tx:
            experiment = checkpoints.owner(tx, experiment_id)
        if experiment is not None:
            launch(ctx, experiment, doomed, key=f"delete {ctx.random.uuid()}", globs=globs)


def collect_cut_off(ctx: Context) -> None:
    """Queue the deletion of the files of interrupted uploads."""
    with ctx.db.begin() as tx:
        uploads = checkpoints.interrupted_uploads(tx, ctx.now(), CUT_OFF_AFTER, _TRIES, _AT_ONCE)
        owners = [(checkpoints.owner(tx, id), uuids) for id, uuids in uploads]
    with suppress(DeletionsHeld):  # the next housekeeping finds them again
        for experiment, uuids in owners:
            if experiment is not None:
                launch(ctx, experiment, uuids, key=f"cut off {ctx.random.uuid()}")


def delete_tensorboards(ctx: Context, user: User, experiment_id: int) -> str:
    """Queue the deletion of an ended experiment's TensorBoard files and return its key. Checkpoints stay."""
    with ctx.db.begin() as tx:
        experiment = checkpoints.owner(tx, experiment_id)
    if experiment is None:
        raise Missing(f"experiment {experiment_id} not found")
    require_owner(
        user, experiment.user_id, f"delete TensorBoard files of experiment {experiment_id}"
    )
    if not experiment.state.terminal:
        raise WrongState(
            f"experiment {experiment_id} is {experiment.state.value} and still writes TensorBoard files:"
            " kill it, or wait until it has ended"
        )
    key = f"tensorboards {ctx.random.uuid()}"
    launch(ctx, experiment, [], key=key, tensorboards=True)
    return key


def running_task(ctx: Context, experiment_id: int, key: str) -> str | None:
    """Return a task of a deletion that has not ended, or None. Raises WrongState if a task failed."""
    with ctx.db.autocommit() as tx:
        queued = checkpoints.collections(tx, [experiment_id], key)
    failed = next((task for task in queued if task.ended_at and not task.succeeded), None)
    if failed is not None:
        raise WrongState(
            f"the TensorBoard files of experiment {experiment_id} could not be deleted: see"
            f" `det task logs {failed.task_id}`, then delete them again"
        )
    return next((task.task_id for task in queued if task.ended_at is None), None)


def launch(
    ctx: Context,
    experiment: Owner,
    doomed: Sequence[UUID],
    *,
    key: str,
    globs: Sequence[str] = EVERYTHING,
    tensorboards: bool = False,
) -> None:
    """Queue a task for each storage that deletes these checkpoints there; the key makes a repeated call harmless.

    Raises DeletionsHeld while a backup copies files: its snapshot does not know of this deletion."""
    launch_all(ctx, [Doomed(experiment, doomed)], key=key, globs=globs, tensorboards=tensorboards)


@dataclass(frozen=True, slots=True)
class Doomed:
    """The checkpoints of an experiment that are deleted."""

    experiment: Owner
    checkpoints: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class _Collection:
    """A task that deletes files of some experiments from one storage, which it has mounted."""

    experiments: list[Owner]
    config: dict[str, Any]
    checkpoints: list[UUID]


def launch_all(
    ctx: Context,
    doomed: Sequence[Doomed],
    *,
    key: str,
    globs: Sequence[str] = EVERYTHING,
    tensorboards: bool = False,
) -> None:
    """Queue tasks like `launch`. Experiments share a task if their owner, storage, mounts and environment are equal."""
    with change(ctx) as changed:
        if backups.deletions_are_held(changed.tx):
            raise DeletionsHeld(
                "a backup of the cluster is being written, and no checkpoint or TensorBoard file is deleted meanwhile:"
                " delete again when the backup is complete"
            )
        ids = [one.experiment.id for one in doomed]
        if checkpoints.collections(changed.tx, ids, key):
            return
        for work in _collections(ctx, changed.tx, doomed, with_own=tensorboards):
            # In a file: a long list of checkpoints is larger than an environment variable may be.
            spec = {
                "storage": work.config["checkpoint_storage"], "checkpoints": [str(u) for u in work.checkpoints],
                "globs": list(globs), "delete_tensorboards": tensorboards,
                # Harnesses of older agents read `experiment_id`.
                "experiment_id": work.experiments[0].id, "experiment_ids": [e.id for e in work.experiments],
            }  # fmt: skip
            config = {
                "_key": key,
                "_command": list(_COMMAND),
                "_files": [{"path": _SPEC, "mode": 0o600, "content": spec}],
                **work.config,
            }
            _queue(ctx, changed, work.experiments, config)


def _collections(
    ctx: Context, tx: Tx, doomed: Sequence[Doomed], *, with_own: bool
) -> list[_Collection]:
    """Group checkpoints by the tasks that delete them."""
    collections: dict[tuple[int, int, str], _Collection] = {}
    for one in doomed:
        experiment = one.experiment
        own: dict[str, Any] = sealing.unsealed(ctx, experiment.config, experiment.sealed)
        for place in _places(ctx, tx, own, one.checkpoints, with_own=with_own):
            config = {
                "checkpoint_storage": place.storage,
                "bind_mounts": _mounts_of(own, place.storage or {}),
                "environment": gc.environment(own.get("environment") or {}),
            }
            same = as_json({**config, "checkpoint_storage": _name(place.storage)})
            work = collections.setdefault(
                (experiment.user_id, experiment.workspace_id, same), _Collection([], config, [])
            )
            work.experiments.append(experiment)
            work.checkpoints.extend(place.checkpoints)
    return list(collections.values())


def _mounts_of(own: Mapping[str, Any], storage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the mounts of an experiment that show its `directory`. Agents mount a `shared_fs` by themselves."""
    if storage.get("type") != "directory":
        return []
    path = f"{storage['container_path'].rstrip('/')}/"
    mounts: list[dict[str, Any]] = own.get("bind_mounts") or []
    return [m for m in mounts if path.startswith(f"{m['container_path'].rstrip('/')}/")]


def _queue(
    ctx: Context, changed: Change, experiments_of_task: Sequence[Owner], config: dict[str, Any]
) -> None:
    """Queue a task without slots that deletes files. The task belongs to the first experiment."""
    experiment, more = experiments_of_task[0], len(experiments_of_task) - 1
    owners = f"Experiment {experiment.id}" + (f" and {more} more" if more else "")
    tx, now, kind = changed.tx, changed.now, TaskKind.CHECKPOINT_GC
    task_id, job_id, pool = (
        str(ctx.random.uuid()),
        ctx.random.uuid(),
        ctx.config.default_aux_resource_pool,
    )
    experiments.insert_job(
        tx, id=job_id, kind=kind.value, name=f"Checkpoint GC ({owners})", pool=pool,
        priority=None, weight=1.0, max_slots=None,
        user_id=experiment.user_id, workspace_id=experiment.workspace_id, now=now,
    )  # fmt: skip
    parts = sealing.seal(ctx, config)
    new = NewTask(task_id, kind, job_id, parts.shown, parts.secrets, experiment.id)
    tasks.insert_task(tx, new, now)
    lifecycle.request(changed, task_id, job_id, 1, pool, slots=0)


@dataclass(frozen=True, slots=True)
class _StorageDeletion:
    """A storage that a task mounts, and the checkpoints that are deleted from it."""

    storage: dict[str, Any] | None
    checkpoints: list[UUID]


def _places(
    ctx: Context, tx: Tx, own: dict[str, Any], doomed: Sequence[UUID], with_own: bool
) -> list[_StorageDeletion]:
    """Group checkpoints by where they lie: training code may have chosen the storage, or the configuration changed."""
    configured = own.get("checkpoint_storage")
    places = {_name(configured): _StorageDeletion(configured, [])} if with_own else {}
    for row in checkpoints.chosen(tx, doomed):
        storage = sealing.unsealed(ctx, row.storage, row.sealed) or configured
        places.setdefault(_name(storage), _StorageDeletion(storage, [])).checkpoints.append(
            row.uuid
        )
    return list(places.values())


def _name(storage: Mapping[str, Any] | None) -> str:
    location = {k: v for k, v in sorted((storage or {}).items()) if k not in checkpoints.RETENTION}
    return as_json(location)
