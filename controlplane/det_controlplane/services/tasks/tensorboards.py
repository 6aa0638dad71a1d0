"""TensorBoards: which experiments and trials one shows, and how its container reads their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from det_controlplane.core.config import TaskConfig
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.people.roles import Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.secrets import masked_paths
from det_controlplane.db.engine.database import as_json
from det_controlplane.db.experiments import experiment_pages
from det_controlplane.db.tasks import tensorboards as rows
from det_controlplane.db.tasks.tensorboards import DrawnExperiment
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing, WrongState
from det_controlplane.services.identity import host_access
from det_controlplane.services.identity.route_rights import require_things
from det_controlplane.services.organization import config_policies
from det_controlplane.services.principal import User
from det_controlplane.services.tasks import programs
from det_controlplane.services.tasks.launching import Build
from det_controlplane.services.tasks.programs import Program, ProgramContext

MOST_SOURCES = 1000
_MOUNT = "/run/determined/storages"
_SECRET_KEYS = ("access_key", "secret_key", "connection_string", "credential")


@dataclass(frozen=True, slots=True)
class TensorBoardRequest:
    """The experiments and trials that a TensorBoard should show."""

    experiment_ids: Sequence[int] = ()
    trial_ids: Sequence[int] = ()
    filters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TensorBoardSources:
    """The experiments of a TensorBoard, newest first, and settings of their owner."""

    experiments: Sequence[DrawnExperiment]
    reads: Mapping[str, Sequence[int]]


def find(ctx: Context, user: User, wanted: TensorBoardRequest) -> TensorBoardSources:
    """Return the trials to show; raises where one is missing, or not visible to this user."""
    experiment_ids = list(dict.fromkeys(wanted.experiment_ids))
    trial_ids = list(dict.fromkeys(wanted.trial_ids))
    if wanted.filters:
        with ctx.db.autocommit() as tx:
            experiment_ids += experiment_pages.ids(tx, dict(wanted.filters))
    _refuse_none(experiment_ids or trial_ids)
    if len(experiment_ids) + len(trial_ids) > MOST_SOURCES:
        message = f"a TensorBoard shows {MOST_SOURCES} experiments and trials at most"
        raise InvalidConfig([Problem("", message)], what="tensorboard")
    right = Right.VIEW_EXPERIMENT_ARTIFACTS
    require_things(ctx, user, right, "experiment", experiment_ids)
    require_things(ctx, user, right, "trial", trial_ids)
    experiments = rows.drawn(ctx.db, experiment_ids, trial_ids)
    _refuse_missing(experiment_ids, trial_ids, experiments)
    staying = _exclude_deleting(wanted, experiments)
    _refuse_none(staying)
    staying_ids = {experiment.id for experiment in staying}
    experiment_ids = [id for id in experiment_ids if id in staying_ids]
    return TensorBoardSources(staying, {"experiment_ids": experiment_ids, "trial_ids": trial_ids})


def _refuse_none(sources: Sequence[object]) -> None:
    if not sources:
        message = "name at least one experiment or trial that a TensorBoard is to show"
        raise InvalidConfig([Problem("", message)], what="tensorboard")


def _refuse_missing(
    experiment_ids: Sequence[int], trial_ids: Sequence[int], experiments: Sequence[DrawnExperiment]
) -> None:
    ids = {experiment.id for experiment in experiments}
    trials = {trial for experiment in experiments for trial in experiment.trial_ids}
    lost = [f"experiment {id}" for id in experiment_ids if id not in ids]
    lost += [f"trial {id}" for id in trial_ids if id not in trials]
    if lost:
        raise Missing(f"{', '.join(lost)} not found")


def _exclude_deleting(
    request: TensorBoardRequest, experiments: Sequence[DrawnExperiment]
) -> list[DrawnExperiment]:
    """Leave out experiments that are being deleted, with their files; raises where one of them is named."""
    leaving = {e.id for e in experiments if e.state == ExperimentState.DELETING}
    conflicts = {
        e.id for e in experiments if e.id in request.experiment_ids or e.trial_ids
    } & leaving
    if conflicts:
        what = ", ".join(f"experiment {id}" for id in sorted(conflicts))
        raise WrongState(f"a TensorBoard shows nothing that is being deleted: leave out {what}")
    return [e for e in experiments if e.id not in leaving]


def environment_of(ctx: Context, user: User, drawing: TensorBoardSources) -> dict[str, Any]:
    """Return the image of the newest experiment, with the login to its registry, for a request without an image.

    Only the experiment's owner and administrators get them: the programs of the image act in the caller's name."""
    experiment = drawing.experiments[0]
    environment = experiment.config.get("environment") or {}
    if not environment.get("image") or not (user.admin or user.id == experiment.user_id):
        return {}
    settings = {"image": environment["image"]}
    if environment.get("registry_auth"):
        config = sealing.unsealed(ctx, experiment.config, experiment.sealed)
        login = config["environment"]["registry_auth"]
        # Without the cluster's key there are only asterisks: the machine's own login may do.
        if not masked_paths(login):
            settings["registry_auth"] = login
    return settings


def building(ctx: Context, user: User, drawing: TensorBoardSources) -> Build:
    """Return a function that builds the program: from sources by storage, and the mounts that show them."""
    places: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    sources = []
    for experiment in drawing.experiments:
        storage, mounts = _storage(ctx, user, experiment)
        key = as_json([storage, mounts])
        location, own = places.setdefault(key, _container_view(storage, mounts, len(places)))
        sources += [
            {"storage": location, "name": name, "path": f"{ctx.cluster_id}/tensorboard/{path}"}
            for name, path in _paths(experiment, drawing.reads["experiment_ids"])
        ]
        places[key] = (location, own)
    mounted = [mount for _, own in places.values() for mount in own]

    def build(config: TaskConfig, place: ProgramContext) -> Program:
        program = programs.of_tensorboard(config, place, sources, drawing.reads)
        return program.seeing(_unique_mounts(mounted))

    return build


def _paths(experiment: DrawnExperiment, experiment_ids: Sequence[int]) -> list[tuple[str, str]]:
    """Return names and places of an experiment, or of single trials."""
    base = f"experiment/{experiment.id}"
    if experiment.id in experiment_ids:
        return [(f"exp-{experiment.id}", base)]
    return [
        (f"exp-{experiment.id}/trial-{trial}", f"{base}/trial/{trial}")
        for trial in experiment.trial_ids
    ]


def _storage(
    ctx: Context, user: User, experiment: DrawnExperiment
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the storage of an experiment with its secrets, and the mounts through which its tasks see it."""
    config = sealing.unsealed(ctx, experiment.config, experiment.sealed)
    storage: dict[str, Any] = config.get("checkpoint_storage") or {}
    mounts: list[dict[str, Any]] = config.get("bind_mounts") or []
    if not user.admin:
        # The code that gets them is the user's: its image, entrypoint and files are free to choose.
        _require_secrets(ctx, user, experiment, storage)
        _require_mounts(ctx, user, experiment, _container_view(storage, mounts, 0)[1])
    return storage, mounts


def _require_secrets(
    ctx: Context, user: User, experiment: DrawnExperiment, storage: Mapping[str, Any]
) -> None:
    """Refuse credentials that the user's experiments would not have."""
    if not _has_secrets(storage):
        return
    common = (
        ctx.config.checkpoint_storage,
        sealing.unsealed(ctx, experiment.of_workspace, experiment.sealed_of_workspace),
    )
    if any(_same_secrets(storage, place) for place in common):
        if not _makes_experiments(user, experiment):
            raise _storage_forbidden(experiment, "has credentials that")
    elif experiment.user_id != user.id:
        raise Forbidden(
            f"the storage of experiment {experiment.id} has credentials of its owner: only that user,"
            " or an administrator, may open a TensorBoard over it"
        )


def _require_mounts(
    ctx: Context, user: User, experiment: DrawnExperiment, mounts: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse directories of the machine that neither a task nor an experiment of the user would see."""
    config = {"bind_mounts": mounts}
    pool = str((experiment.config.get("resources") or {}).get("resource_pool") or "")
    try:
        host_access.require(ctx, user, config)
    except InvalidConfig as e:
        if not _makes_experiments(user, experiment):
            raise _storage_forbidden(experiment, "lies in a directory of the machine that") from e
        with ctx.db.autocommit() as tx:
            demanded = config_policies.demanded(ctx, tx, experiment.workspace_id)
        storages = [experiment.of_workspace]
        try:
            host_access.require(ctx, user, config, pool=pool, storages=storages, demanded=demanded)
        except InvalidConfig as refused:
            raise Forbidden(
                f"the storage of experiment {experiment.id} lies in a directory of the machine that only an"
                " administrator may mount: only an administrator may open a TensorBoard over it"
            ) from refused


def _makes_experiments(user: User, experiment: DrawnExperiment) -> bool:
    return user.grants.has(Right.CREATE_EXPERIMENT, experiment.workspace_id)


def _storage_forbidden(experiment: DrawnExperiment, what: str) -> Forbidden:
    return Forbidden(
        f"the storage of experiment {experiment.id} {what} experiments of workspace {experiment.workspace_id} reach:"
        " only a user who may create experiments there (CREATE_EXPERIMENT), or an administrator, may open a"
        " TensorBoard over it"
    )


def _has_secrets(storage: Mapping[str, Any]) -> bool:
    return any(storage.get(key) for key in _SECRET_KEYS)


def _same_secrets(storage: Mapping[str, Any], place: Any) -> bool:
    return isinstance(place, Mapping) and all(
        storage.get(key) == place.get(key) for key in _SECRET_KEYS
    )


def _container_view(
    storage: Mapping[str, Any], mounts: Sequence[Mapping[str, Any]], number: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a storage as the container sees it, with its mounts. The container only reads it."""
    kind = storage.get("type")
    if kind == "shared_fs":
        inside = f"{_MOUNT}/{number}"
        folder = str(storage.get("storage_path") or "")
        host = str(storage["host_path"])
        below = folder.removeprefix(host).strip("/")
        path = f"{inside}/{below}" if below else inside
        mount = {"host_path": host, "container_path": inside, "read_only": True}
        return {"type": "directory", "container_path": path}, [mount]
    if kind == "directory":
        inside = str(storage["container_path"])
        return dict(storage), [{**m, "read_only": True} for m in _enclosing_mount(inside, mounts)]
    return {k: v for k, v in storage.items() if not k.startswith("save_")}, []


def _enclosing_mount(inside: str, mounts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the mount in which a directory of the container lies, if there is one: the innermost."""
    places = [(PurePosixPath(str(mount.get("container_path"))), mount) for mount in mounts]
    near = [entry for entry in places if PurePosixPath(inside).is_relative_to(entry[0])]
    return [max(near, key=lambda entry: len(entry[0].parts))[1]] if near else []


def _unique_mounts(mounts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first mount of each place in the container."""
    return list({str(m["container_path"]): m for m in reversed(mounts)}.values())
