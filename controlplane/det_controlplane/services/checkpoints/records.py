"""Checkpoints: reported when complete, looked up, edited, deleted."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from det_controlplane.core.lifecycle.checkpoint import CheckpointState, after_removal
from det_controlplane.core.trials.metrics import steps_problem
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.db.checkpoints.checkpoints import NewCheckpoint
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.trials import trial_reports
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Invalid, Missing, WrongState
from det_controlplane.services.identity import host_access
from det_controlplane.services.principal import User

_STORAGE = "checkpoint_storage"


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    uuid: str
    task_id: str
    allocation_id: str | None
    resources: dict[str, str]
    metadata: dict[str, Any]
    state: str = "COMPLETED"
    storage_id: int | None = None
    reported_at: datetime | None = None


def report(ctx: Context, user: User, report: CheckpointReport) -> None:
    """Store a complete checkpoint or the begin of an upload. Repeated reports have no effect."""
    state = _state(report)
    steps = report.metadata.get("steps_completed")
    if state is CheckpointState.ACTIVE and steps is None:
        steps = 0  # its metadata may be completed during the upload
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise Invalid(f"checkpoint {report.uuid}: metadata.steps_completed must be an integer")
    problem = steps_problem(steps)
    if problem is not None:
        raise Invalid(f"checkpoint {report.uuid}: metadata.steps_completed: {problem}")
    checkpoint_id = parse_uuid(report.uuid)
    with ctx.db.begin() as tx:
        task = checkpoints.reporter(tx, report.task_id)
        if task is None:
            raise Missing(f"task '{report.task_id}' not found")
        storage_id = report.storage_id
        if storage_id is not None:
            _require_storage(tx, report, {user.id, task.user_id or user.id})
        elif task.storage:
            own = of_experiment(ctx, task.storage, task.sealed)
            storage_id = _remember(ctx, tx, own, task.user_id or user.id)
        if _is_superseded(tx, user, report, steps):
            # Housekeeping deletes the files later, like files of an incomplete upload.
            state = CheckpointState.ACTIVE
        new = NewCheckpoint(
            checkpoint_id, report.task_id, report.allocation_id, task.trial_id, task.experiment_id,
            state, steps, report.resources, report.metadata, size_of(report.resources),
            storage_id, report.reported_at or ctx.now(),
        )  # fmt: skip
        # A repeated report does not undo later changes of the checkpoint.
        if not checkpoints.report(tx, new) and not checkpoints.is_of(
            tx, checkpoint_id, report.task_id
        ):
            raise WrongState(f"checkpoint {report.uuid} belongs to another task")


def _is_superseded(tx: Tx, user: User, report: CheckpointReport, steps: int) -> bool:
    """Return whether a later run has started from an earlier step: it trains these steps itself.

    As the metrics of the earlier run do not count beyond that step, its checkpoints do not either."""
    allocation_id = user.allocation_id or report.allocation_id
    ends_at = trial_reports.lock_end_of_run(tx, allocation_id) if allocation_id else None
    return ends_at is not None and steps > ends_at


def _state(report: CheckpointReport) -> CheckpointState:
    try:
        return CheckpointState(report.state)
    except ValueError as e:
        states = ", ".join(s.value for s in CheckpointState)
        raise Invalid(f"checkpoint {report.uuid}: state must be one of {states}") from e


def patch(ctx: Context, changes: list[tuple[str, dict[str, str] | None]]) -> None:
    """Store which files of each checkpoint are left after a deletion."""
    with ctx.db.begin() as tx:
        for uuid, resources in changes:
            if resources is not None:
                _patch_one(tx, uuid, resources)


def _patch_one(tx: Tx, uuid: str, files: dict[str, str]) -> None:
    checkpoint_id = parse_uuid(uuid)
    row = checkpoints.lock(tx, checkpoint_id)
    if row is None:
        raise Missing(f"checkpoint {uuid} not found")
    remains = after_removal(row.state, row.resources, files)
    size = size_of(remains.resources)
    checkpoints.change(
        tx, checkpoint_id, state=remains.state, size=size, resources=remains.resources
    )


def set_metadata(ctx: Context, uuid: str, metadata: dict[str, Any]) -> None:
    with ctx.db.begin() as tx:
        if not checkpoints.change(tx, parse_uuid(uuid), metadata=metadata):
            raise Missing(f"checkpoint {uuid} not found")


def remember_storage(ctx: Context, user: User, config: dict[str, Any] | None) -> int | None:
    """Store a run's storage (`POST /runs/start`) and return its number, good for this user's checkpoints."""
    if not config:
        return None
    with ctx.db.begin() as tx:
        own = checkpoints.reporter(tx, user.task_id) if user.task_id else None
        trusted = [own.storage if own else None]
        host_access.require_storage(ctx, user, config, "checkpointStorage", trusted)
        return _remember(ctx, tx, config, user.id)


def _require_storage(tx: Tx, report: CheckpointReport, users: set[int]) -> None:
    """Refuse the number of another user's storage: deleting the checkpoint would hand over its keys."""
    owner = checkpoints.storage_owner(tx, report.storage_id or 0)
    if owner is None:
        raise Missing(f"storage {report.storage_id} not found")
    if owner not in users:
        raise Forbidden(
            f"checkpoint {report.uuid}: storage {report.storage_id} is another user's; leave storageId out,"
            " or announce a storage by POST /api/v1/runs/start"
        )


def of_experiment(ctx: Context, storage: Any, sealed: str | None) -> Any:
    """Return the storage of an experiment's configuration, with its secrets."""
    return sealing.unsealed(ctx, {_STORAGE: storage}, sealed)[_STORAGE]


def _remember(ctx: Context, tx: Tx, storage: dict[str, Any], user_id: int) -> int:
    location = {k: v for k, v in storage.items() if k not in checkpoints.RETENTION}
    parts = sealing.seal(ctx, location)
    fingerprint = sealing.fingerprint(ctx, location)
    return checkpoints.remember_storage(tx, parts.shown, parts.secrets, fingerprint, user_id)


def size_of(resources: dict[str, str]) -> int:
    try:
        return sum(int(size) for size in resources.values())
    except ValueError as e:
        raise Invalid("checkpoint resources must be sizes in bytes by path") from e


def parse_uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise Missing(f"checkpoint {value!r} not found: it is not a UUID") from e
