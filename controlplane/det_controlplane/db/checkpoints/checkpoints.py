"""Checkpoints: reports, remaining files, and data for garbage collection."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Integer,
    Text,
    any_,
    bindparam,
    exists,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.allocation import ExitKind
from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time
from det_controlplane.db.schema import allocations, checkpoints, experiments, storages, tasks

_c = checkpoints.c
# The end of a query that reads the newest checkpoint `c` of a trial.
NEWEST_CHECKPOINT = (
    "c.state = 'COMPLETED' ORDER BY c.steps_completed DESC, c.reported_at DESC LIMIT 1"
)
_NEWEST_OF_TRIAL = text(
    f"SELECT c.uuid FROM checkpoints c WHERE c.trial_id = :id AND {NEWEST_CHECKPOINT}"
)
# Fields that the report of a complete checkpoint may change; its announcement had fewer.
_TOLD = ("resources", "metadata", "size", "state", "steps_completed", "storage_id", "reported_at")
_REPORT = insert(checkpoints)
_REPORT = _REPORT.on_conflict_do_update(
    index_elements=[_c.uuid],
    set_={name: _REPORT.excluded[name] for name in _TOLD},
    where=(_c.task_id == _REPORT.excluded.task_id) & (_c.state == CheckpointState.ACTIVE),
)
_COLLECTED = text("""
    SELECT e.id, e.state::text AS state, e.config, e.sealed, e.user_id, p.workspace_id,
           EXISTS (SELECT 1 FROM trials t WHERE t.experiment_id = e.id AND NOT e.unmanaged) AS has_trials
    FROM experiments e JOIN projects p ON p.id = e.project_id WHERE e.id = :id
""")
_REPORTER = (
    select(
        tasks.c.trial_id,
        tasks.c.experiment_id,
        experiments.c.config["checkpoint_storage"],
        experiments.c.sealed,
        experiments.c.user_id,
    )
    .outerjoin(experiments, experiments.c.id == tasks.c.experiment_id)
    .where(tasks.c.id == bindparam("task_id"))
)
# The numbers of kept checkpoints do not belong to the location.
RETENTION = ("save_experiment_best", "save_trial_best", "save_trial_latest")
_OF_EXPERIMENT = text("""
    SELECT c.uuid, c.trial_id, c.steps_completed,
           EXISTS (SELECT 1 FROM model_versions v WHERE v.checkpoint_uuid = c.uuid)
           OR EXISTS (SELECT 1 FROM trials w WHERE w.warm_start_uuid = c.uuid AND w.ended_at IS NULL) AS kept,
           (SELECT m.metrics->>:metric FROM metrics m WHERE m.trial_id = c.trial_id AND m.metric_group = 'validation'
            AND m.total_batches = c.steps_completed AND NOT m.archived) AS metric
    FROM checkpoints c WHERE c.experiment_id = :id AND c.state IN ('COMPLETED', 'PARTIALLY_DELETED')
""")
_UNFINISHED = text("SELECT uuid FROM checkpoints WHERE experiment_id = :id AND state = 'ACTIVE'")
# Collections that began when it was old enough have tried this one: a storage that is gone for good is not asked for ever.
_CUT_OFF = text("""
    SELECT c.experiment_id, array_agg(c.uuid ORDER BY c.uuid) AS uuids
    FROM checkpoints c JOIN experiments e ON e.id = c.experiment_id
    WHERE c.state = 'ACTIVE' AND c.reported_at < :before AND NOT e.unmanaged AND e.state <> 'DELETING'
      AND NOT EXISTS (
        SELECT 1 FROM allocations a WHERE a.task_id = c.task_id AND (a.id = c.allocation_id OR c.allocation_id IS NULL)
        AND (a.ended_at IS NULL OR a.ended_at > :before))
      AND NOT EXISTS (
        SELECT 1 FROM tasks k WHERE k.experiment_id = c.experiment_id AND k.kind = 'CHECKPOINT_GC' AND k.ended_at IS NULL)
      AND :tries > (
        SELECT count(*) FROM tasks k WHERE k.experiment_id = c.experiment_id AND k.kind = 'CHECKPOINT_GC'
        AND k.config->>'_key' LIKE 'cut off %' AND k.started_at - cast(:age AS interval) > greatest(c.reported_at, (
            SELECT max(a.ended_at) FROM allocations a
            WHERE a.task_id = c.task_id AND (a.id = c.allocation_id OR c.allocation_id IS NULL))))
    GROUP BY c.experiment_id ORDER BY c.experiment_id LIMIT :most
""")
_CHOSEN = text("""
    SELECT c.uuid, c.experiment_id, c.state = 'ACTIVE' AND EXISTS (
               SELECT 1 FROM allocations a WHERE a.id = c.allocation_id AND a.task_id = c.task_id AND a.ended_at IS NULL) AS uploading,
           EXISTS (SELECT 1 FROM model_versions v WHERE v.checkpoint_uuid = c.uuid) AS registered, s.config AS storage, s.sealed
    FROM checkpoints c LEFT JOIN storages s ON s.id = c.storage_id WHERE c.experiment_id IS NOT NULL AND c.uuid = ANY(cast(:uuids AS uuid[]))
    ORDER BY c.steps_completed, c.uuid
""")
_DOOMED = text(f"""
    SELECT c.uuid::text AS uuid, c.trial_id, c.steps_completed, c.state::text AS state, c.resources,
           {time("c.reported_at")} AS report_time,
           (SELECT m.metrics FROM metrics m WHERE m.trial_id = c.trial_id AND m.metric_group = 'validation'
            AND m.total_batches = c.steps_completed AND NOT m.archived LIMIT 1) AS metrics
    FROM checkpoints c WHERE c.uuid = ANY(cast(:uuids AS uuid[])) ORDER BY c.trial_id, c.steps_completed
""")


@dataclass(frozen=True, slots=True)
class Reporter:
    """Hold the trial that a task reports for, and the storage that its experiment is configured to use."""

    trial_id: int | None
    experiment_id: int | None
    storage: dict[str, Any] | None
    sealed: str | None  # of the experiment
    user_id: int | None  # its owner


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    uuid: UUID
    task_id: str
    allocation_id: str | None
    trial_id: int | None
    experiment_id: int | None
    state: CheckpointState
    steps_completed: int
    resources: dict[str, str]
    metadata: dict[str, Any]
    size: int
    storage_id: int | None
    reported_at: datetime


@dataclass(frozen=True, slots=True)
class Stored:
    state: CheckpointState
    resources: dict[str, str]


@dataclass(frozen=True, slots=True)
class Location:
    """The storage of a checkpoint, or of its experiment if the checkpoint names none."""

    uuid: UUID
    state: CheckpointState
    storage: dict[str, Any] | None
    sealed: str | None
    of_experiment: dict[str, Any] | None
    experiment_sealed: str | None


@dataclass(frozen=True, slots=True)
class Owner:
    """An experiment with checkpoints that are deleted."""

    id: int
    config: dict[str, Any]
    sealed: str | None
    user_id: int
    workspace_id: int
    state: ExperimentState
    has_trials: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that the policy of its experiment may delete; `kept` ones it may not."""

    uuid: UUID
    trial_id: int
    steps_completed: int
    kept: bool
    metric: str | None


@dataclass(frozen=True, slots=True)
class ChosenCheckpoint:
    """A checkpoint that a user deletes. Without a storage of its own, it is in the storage of its experiment."""

    uuid: UUID
    experiment_id: int
    uploading: bool
    registered: bool
    storage: dict[str, Any] | None
    sealed: str | None


@dataclass(frozen=True, slots=True)
class DoomedCheckpoint:
    """A checkpoint that a policy would delete, as it is shown."""

    uuid: str
    trial_id: int
    steps_completed: int
    state: str
    resources: dict[str, str]
    report_time: str
    metrics: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Collection:
    """A task that deletes files."""

    task_id: str
    experiment_id: int
    ended_at: datetime | None
    succeeded: bool


def reporter(tx: Tx, task_id: str) -> Reporter | None:
    row = tx.execute(_REPORTER, {"task_id": task_id}).first()
    return None if row is None else Reporter(*row)


def report(tx: Tx, new: NewCheckpoint) -> bool:
    """Store a report; False when the checkpoint was complete before, or is another task's."""
    values = {name: getattr(new, name) for name in NewCheckpoint.__slots__}
    return tx.execute(_REPORT, values).rowcount > 0


def is_of(tx: Tx, uuid: UUID, task_id: str) -> bool:
    """Return whether a checkpoint was reported by a task."""
    return tx.execute(select(_c.task_id).where(_c.uuid == uuid)).scalar() == task_id


def lock(tx: Tx, uuid: UUID) -> Stored | None:
    query = select(_c.state, _c.resources).where(_c.uuid == uuid).with_for_update()
    row = tx.execute(query).first()
    return None if row is None else Stored(*row)


def change(tx: Tx, uuid: UUID, **values: Any) -> bool:
    return tx.execute(update(checkpoints).where(_c.uuid == uuid).values(values)).rowcount > 0


def state(tx: Tx, uuid: UUID) -> CheckpointState | None:
    return tx.execute(select(_c.state).where(_c.uuid == uuid)).scalar()


def newest_of_trial(tx: Tx, trial_id: int) -> UUID | None:
    return tx.execute(_NEWEST_OF_TRIAL, {"id": trial_id}).scalar()


def location(tx: Tx, uuid: UUID) -> Location | None:
    of_experiment = experiments.c.config["checkpoint_storage"]
    query = (
        select(
            _c.uuid,
            _c.state,
            storages.c.config,
            storages.c.sealed,
            of_experiment,
            experiments.c.sealed,
        )
        .select_from(checkpoints)
        .outerjoin(storages, storages.c.id == _c.storage_id)
        .outerjoin(experiments, experiments.c.id == _c.experiment_id)
    )
    row = tx.execute(query.where(_c.uuid == uuid)).first()
    return None if row is None else Location(*row)


def remember_storage(
    tx: Tx, config: dict[str, Any], sealed: str, fingerprint: str, user_id: int
) -> int:
    """Return the number of a user's storage. It stays the same whatever the storage contains."""
    same = (storages.c.config == config) & (storages.c.fingerprint == fingerprint)
    same &= storages.c.user_id == user_id
    storage_id: int | None = tx.execute(select(storages.c.id).where(same)).scalar()
    if storage_id is not None:
        return storage_id
    new = insert(storages).values(
        config=config, sealed=sealed, fingerprint=fingerprint, user_id=user_id
    )
    upsert = new.on_conflict_do_update(
        index_elements=["config", "fingerprint", "user_id"], set_={"sealed": new.excluded.sealed}
    )
    return int(tx.execute(upsert.returning(storages.c.id)).scalar_one())


def storage_owner(tx: Tx, storage_id: int) -> int | None:
    """Return the user who first used a storage, or 0 for storages from before this was recorded."""
    return tx.execute(select(storages.c.user_id).where(storages.c.id == storage_id)).scalar()


def owner(tx: Tx, experiment_id: int) -> Owner | None:
    row = tx.execute(_COLLECTED, {"id": experiment_id}).first()
    if row is None:
        return None
    return Owner(**{**row._mapping, "state": ExperimentState(row.state)})


def candidates(tx: Tx, experiment_id: int, metric: str) -> list[Candidate]:
    rows = tx.execute(_OF_EXPERIMENT, {"id": experiment_id, "metric": metric})
    return [Candidate(*row) for row in rows]


def chosen(tx: Tx, uuids: Sequence[UUID]) -> list[ChosenCheckpoint]:
    return [ChosenCheckpoint(*row) for row in tx.execute(_CHOSEN, {"uuids": list(uuids)})]


def unfinished(tx: Tx, experiment_id: int) -> list[UUID]:
    """Return checkpoints that were announced and never reported as complete."""
    return list(tx.execute(_UNFINISHED, {"id": experiment_id}).scalars())


def interrupted_uploads(
    tx: Tx, now: datetime, age: timedelta, tries: int, most: int
) -> list[tuple[int, list[UUID]]]:
    """Return the incomplete uploads of work that ended more than `age` ago, by experiment.

    An upload is excluded after `tries` collections that started since its work ended."""
    values = {"before": now - age, "age": age, "tries": tries, "most": most}
    rows = tx.execute(_CUT_OFF, values)
    return [(row.experiment_id, list(row.uuids)) for row in rows]


def doomed(tx: Tx, uuids: Sequence[UUID]) -> list[DoomedCheckpoint]:
    return [DoomedCheckpoint(*row) for row in tx.execute(_DOOMED, {"uuids": list(uuids)})]


def collections(tx: Tx, experiment_ids: Sequence[int], key: str) -> list[Collection]:
    """Find the garbage collections that an effect has launched already."""
    of_experiments = (
        tasks.c.experiment_id == any_(literal(list(experiment_ids), ARRAY(Integer)))
    ) & (tasks.c.kind == TaskKind.CHECKPOINT_GC)
    clean = exists().where(
        allocations.c.task_id == tasks.c.id, allocations.c.exit_kind == ExitKind.CLEAN.value
    )
    query = select(tasks.c.id, tasks.c.experiment_id, tasks.c.ended_at, clean).where(
        of_experiments, tasks.c.config["_key"].astext == key
    )
    return [Collection(*row) for row in tx.execute(query.order_by(tasks.c.id))]


def move_collections(tx: Tx, task_ids: Sequence[str], experiment_id: int) -> None:
    """Keep collections, with their logs, as long as another experiment exists."""
    statement = update(tasks).where(tasks.c.id == any_(literal(list(task_ids), ARRAY(Text))))
    tx.execute(statement.values(experiment_id=experiment_id))
