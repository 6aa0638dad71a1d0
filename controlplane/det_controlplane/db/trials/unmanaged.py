"""Rows of trials that run elsewhere and only report."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import bindparam, select, text, update

from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db import schema
from det_controlplane.db.checkpoints.checkpoints import NEWEST_CHECKPOINT
from det_controlplane.db.engine.database import Tx

_t, _e = schema.trials.c, schema.experiments.c
_SILENT = text("""
    SELECT t.id FROM trials t JOIN experiments e ON e.id = t.experiment_id
    WHERE e.unmanaged AND t.ended_at IS NULL AND t.heartbeat_at <= :before ORDER BY t.id
""")
_LONGEST_SILENT = text("""
    SELECT min(t.heartbeat_at) FROM trials t JOIN experiments e ON e.id = t.experiment_id
    WHERE e.unmanaged AND t.ended_at IS NULL AND t.heartbeat_at IS NOT NULL
      AND e.id IN (SELECT id FROM experiments WHERE state IN ('ACTIVE', 'PAUSED'))
""")
_END = text("""
    UPDATE trials SET state = cast(:state AS trial_state), ended_at = :now WHERE id = :id AND ended_at IS NULL
""")
_END_EXPERIMENT = text("""
    UPDATE experiments SET state = cast(:state AS experiment_state), ended_at = :now
    WHERE id = (SELECT experiment_id FROM trials WHERE id = :id) AND ended_at IS NULL
    RETURNING id
""")
_START = text("""
    UPDATE trials SET run_id = run_id + 1, heartbeat_at = :now, state = 'ACTIVE', ended_at = NULL
    WHERE id = :id RETURNING run_id
""")
_REOPEN = text("""
    UPDATE experiments SET state = 'ACTIVE', ended_at = NULL
    WHERE unmanaged AND id = (SELECT experiment_id FROM trials WHERE id = :id)
      AND state IN ('PAUSED', 'COMPLETED', 'CANCELED', 'ERROR')
""")
_LATEST = text(
    f"SELECT c.uuid, c.steps_completed FROM checkpoints c WHERE c.trial_id = :id AND {NEWEST_CHECKPOINT}"
)
_HEARTBEAT = (
    update(schema.trials)
    .where(_t.id == bindparam("trial"), _t.ended_at.is_(None))
    .values(heartbeat_at=bindparam("now"))
)
_IS_UNMANAGED = (
    select(_e.unmanaged)
    .join(schema.trials, _t.experiment_id == _e.id)
    .where(_t.id == bindparam("trial"))
)
_LOCK = _IS_UNMANAGED.with_for_update(of=schema.experiments, key_share=True)
_IS_SILENT = select(_t.heartbeat_at <= bindparam("before")).where(_t.id == bindparam("trial"))
_EXPERIMENT = select(_e.unmanaged, _e.job_id).where(_e.id == bindparam("id"))
_BY_EXTERNAL = select(_t.id).where(
    _t.experiment_id == bindparam("experiment_id"), _t.external_id == bindparam("external_id")
)


def is_unmanaged(tx: Tx, trial_id: int) -> bool | None:
    """Return whether the trial runs elsewhere; None where there is no such trial."""
    return tx.execute(_IS_UNMANAGED, {"trial": trial_id}).scalar()


def lock_experiment(tx: Tx, trial_id: int) -> bool | None:
    """Lock the experiment of a trial and return what `is_unmanaged` returns.

    The order of locks puts the experiment before the trial.
    """
    return tx.execute(_LOCK, {"trial": trial_id}).scalar()


def is_silent(tx: Tx, trial_id: int, before: datetime) -> bool:
    return bool(tx.execute(_IS_SILENT, {"trial": trial_id, "before": before}).scalar())


def heartbeat(tx: Tx, trial_id: int, now: datetime) -> None:
    tx.execute(_HEARTBEAT, {"trial": trial_id, "now": now})


def reopen(tx: Tx, trial_id: int) -> None:
    """Make the trial's experiment active, which may have ended before."""
    tx.execute(_REOPEN, {"id": trial_id})


def silent_since(tx: Tx, before: datetime) -> list[int]:
    return list(tx.execute(_SILENT, {"before": before}).scalars())


def longest_silent(tx: Tx) -> datetime | None:
    """Return the oldest last heartbeat of all live unmanaged trials."""
    time: datetime | None = tx.execute(_LONGEST_SILENT).scalar()
    return time


def end(tx: Tx, trial_id: int, state: TrialState, now: datetime) -> int | None:
    """End a trial and its experiment. Return the experiment, or None if the trial had already ended."""
    params = {"id": trial_id, "state": state.value, "now": now}
    if not tx.execute(_END, params).rowcount:
        return None
    experiment_id: int | None = tx.execute(_END_EXPERIMENT, params).scalar()
    return experiment_id


@dataclass(frozen=True, slots=True)
class Parent:
    unmanaged: bool
    job_id: UUID


def parent(tx: Tx, experiment_id: int) -> Parent | None:
    row = tx.execute(_EXPERIMENT, {"id": experiment_id}).first()
    return None if row is None else Parent(*row)


def by_external_id(tx: Tx, experiment_id: int, external_id: str) -> int | None:
    params = {"experiment_id": experiment_id, "external_id": external_id}
    return tx.execute(_BY_EXTERNAL, params).scalar()


@dataclass(frozen=True, slots=True)
class Run:
    run_id: int
    checkpoint: UUID | None
    steps_completed: int


def start(tx: Tx, trial_id: int, resume: bool, now: datetime) -> Run:
    """Begin a new run of a trial, which may have ended. Return the checkpoint for the start."""
    row = tx.execute(_START, {"id": trial_id, "now": now}).one()
    reopen(tx, trial_id)
    latest = tx.execute(_LATEST, {"id": trial_id}).first() if resume else None
    return Run(row.run_id, *(latest or (None, 0)))
