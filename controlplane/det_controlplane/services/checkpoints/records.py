"""Checkpoints: reported when complete, looked up, edited, deleted."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.core.lifecycle.checkpoint import CheckpointState, after_removal
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState

_TASK = text("SELECT id, trial_id, experiment_id FROM tasks WHERE id = :id")
_INSERT = text("""
    INSERT INTO checkpoints (uuid, task_id, allocation_id, trial_id, experiment_id, state, steps_completed, resources,
        metadata, size, storage_id, reported_at)
    VALUES (:uuid, :task_id, :allocation_id, :trial_id, :experiment_id, cast(:state AS checkpoint_state),
        :steps_completed, cast(:resources AS jsonb), cast(:metadata AS jsonb), :size, :storage_id, :at)
    ON CONFLICT (uuid) DO UPDATE SET resources = excluded.resources, metadata = excluded.metadata, size = excluded.size,
        state = excluded.state WHERE checkpoints.task_id = excluded.task_id AND checkpoints.state IN ('ACTIVE', 'COMPLETED')
    RETURNING uuid
""")
_LOCK = text(
    "SELECT state::text AS state, resources FROM checkpoints WHERE uuid = :uuid FOR UPDATE"
)
_PATCH = text("""
    UPDATE checkpoints SET resources = cast(:resources AS jsonb), size = :size, state = cast(:state AS checkpoint_state)
    WHERE uuid = :uuid
""")
_SET_METADATA = text(
    "UPDATE checkpoints SET metadata = cast(:metadata AS jsonb) WHERE uuid = :uuid"
)
_STORAGE = text("""
    INSERT INTO storages (config) VALUES (cast(:config AS jsonb))
    ON CONFLICT (config) DO UPDATE SET config = excluded.config RETURNING id
""")


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


def report(ctx: Context, report: CheckpointReport) -> None:
    """A checkpoint is complete. Repeating the report changes nothing."""
    steps = report.metadata.get("steps_completed")
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise Invalid(f"checkpoint {report.uuid}: metadata.steps_completed must be an integer")
    checkpoint_id = parse_uuid(report.uuid)
    with ctx.db.begin() as tx:
        task = tx.execute(_TASK, {"id": report.task_id}).first()
        if task is None:
            raise Missing(f"task '{report.task_id}' not found")
        stored = tx.execute(
            _INSERT,
            {
                "uuid": checkpoint_id, "task_id": report.task_id, "allocation_id": report.allocation_id,
                "trial_id": task.trial_id, "experiment_id": task.experiment_id,
                "state": report.state, "steps_completed": steps, "size": size_of(report.resources),
                "resources": as_json(report.resources), "metadata": as_json(report.metadata),
                "storage_id": report.storage_id, "at": report.reported_at or ctx.now(),
            },
        ).scalar()  # fmt: skip
        if stored is None:
            raise WrongState(f"checkpoint {report.uuid} was deleted or belongs to another task")


def patch(ctx: Context, changes: list[tuple[str, dict[str, str] | None]]) -> None:
    """What is left of each after files were deleted: nothing, some, or all."""
    with ctx.db.begin() as tx:
        for uuid, resources in changes:
            if resources is not None:
                _patch_one(tx, uuid, resources)


def _patch_one(tx: Tx, uuid: str, left: dict[str, str]) -> None:
    checkpoint_id = parse_uuid(uuid)
    row = tx.execute(_LOCK, {"uuid": checkpoint_id}).first()
    if row is None:
        raise Missing(f"checkpoint {uuid} not found")
    state = after_removal(CheckpointState(row.state), row.resources, left)
    params = {"uuid": checkpoint_id, "state": state.value, "size": size_of(left)}
    tx.execute(_PATCH, {**params, "resources": as_json(left)})


def set_metadata(ctx: Context, uuid: str, metadata: dict[str, Any]) -> None:
    with ctx.db.begin() as tx:
        if not tx.execute(
            _SET_METADATA, {"uuid": parse_uuid(uuid), "metadata": as_json(metadata)}
        ).rowcount:
            raise Missing(f"checkpoint {uuid} not found")


def remember_storage(ctx: Context, config: dict[str, Any] | None) -> int | None:
    """`POST /runs/start`: the storage a run writes to, by number."""
    if not config:
        return None
    with ctx.db.begin() as tx:
        return int(tx.execute(_STORAGE, {"config": as_json(config)}).scalar_one())


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
