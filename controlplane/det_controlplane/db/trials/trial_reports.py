"""Reports and questions of running trials besides metrics and checkpoints."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select, text
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx

# A program that decides from outside hears of whole percents.
_PROGRESS = text("""
    UPDATE trials t SET progress = :progress FROM trials old WHERE t.id = :id AND t.ended_at IS NULL AND old.id = t.id
    RETURNING t.train_to IS NOT NULL
        AND floor(t.progress * 100) IS DISTINCT FROM floor(old.progress * 100) AS moved,
        CASE WHEN t.train_to IS NOT NULL THEN
            (SELECT e.searcher_name FROM experiments e WHERE e.id = t.experiment_id) END AS searcher
""")
_OPERATION = text("""
    SELECT t.train_to, t.op_completed, t.stop_requested, t.parked, t.ended_at IS NOT NULL AS ended, t.state::text,
           e.config->'searcher' AS searcher,
           CASE WHEN t.parked THEN EXISTS (SELECT 1 FROM allocations q JOIN jobs j ON j.pool = q.pool
                WHERE j.id = e.job_id AND q.state = 'QUEUED') END AS slots_wanted
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id
""")
_WORK = text("""
    SELECT t.state::text, t.stop_requested, t.parked, t.train_to, t.hparams, e.config,
           coalesce(e.best_trial_id = t.id AND t.latest_validation_id IS NOT DISTINCT FROM t.best_validation_id, false) AS newest_is_best,
           (SELECT m.total_batches FROM metrics m WHERE m.id = t.latest_validation_id) AS validated_at,
           (SELECT max(c.steps_completed) FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'COMPLETED') AS saved_at,
           EXISTS (SELECT 1 FROM allocations a WHERE a.trial_id = t.id AND a.state <> 'TERMINATED'
                   AND a.preempt_at IS NOT NULL) AS preempted
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id
""")
_LATER_STARTS = text("""
    SELECT b.start_steps FROM allocations a JOIN allocations b ON b.trial_id = a.trial_id AND b.run_id > a.run_id
    WHERE a.id = :allocation ORDER BY b.id FOR SHARE OF b
""")
_HAS_LATER_RUN = text("""
    SELECT 1 FROM allocations a JOIN allocations b ON b.trial_id = a.trial_id AND b.run_id > a.run_id
    WHERE a.id = :allocation AND b.start_steps IS NOT NULL LIMIT 1
""")
_METADATA = select(schema.trials.c.metadata).where(schema.trials.c.id == bindparam("id"))
_source = insert(schema.trial_sources)
_SOURCE = _source.on_conflict_do_update(
    index_elements=["trial_id", "checkpoint_uuid"],
    set_={n: _source.excluded[n] for n in ("model_id", "model_version", "kind")},
)


def lock_end_of_run(tx: Tx, allocation_id: str) -> int | None:
    """Return the starting step of a later run, or None if the run of this allocation is the newest that has begun.

    The lock prevents later runs from starting until the transaction ends."""
    starts = tx.execute(_LATER_STARTS, {"allocation": allocation_id}).scalars()
    return min((steps for steps in starts if steps is not None), default=None)


def has_later_run(tx: Tx, allocation_id: str) -> bool:
    """Return whether a later run of the allocation's trial has begun."""
    return tx.execute(_HAS_LATER_RUN, {"allocation": allocation_id}).first() is not None


@dataclass(frozen=True, slots=True)
class Progressed:
    moved: bool  # by at least a percent of the requested length
    searcher: str | None


def set_progress(tx: Tx, trial_id: int, progress: float) -> Progressed | None:
    """Set the progress; return None when the trial has ended, or never was."""
    row = tx.execute(_PROGRESS, {"id": trial_id, "progress": progress}).first()
    return None if row is None else Progressed(*row)


@dataclass(frozen=True, slots=True)
class Metadata:
    values: dict[str, Any] | None


def metadata(tx: Tx, trial_id: int) -> Metadata | None:
    row = tx.execute(_METADATA, {"id": trial_id}).first()
    return None if row is None else Metadata(*row)


def add_source(
    tx: Tx, trial_id: int, uuid: UUID, model_id: int | None, model_version: int | None, kind: str
) -> None:
    values = {
        "trial_id": trial_id, "checkpoint_uuid": uuid, "model_id": model_id,
        "model_version": model_version, "kind": kind,
    }  # fmt: skip
    tx.execute(_SOURCE, values)


@dataclass(frozen=True, slots=True)
class TrialOrders:
    """Hold an operation that the searcher asks of a trial."""

    train_to: float | None
    op_completed: bool
    stop_requested: bool
    parked: bool
    ended: bool
    state: str
    searcher: dict[str, Any]
    slots_wanted: bool | None  # by others, while it is parked


def train_to(tx: Tx, trial_id: int) -> float | None:
    """Return the length of the trial's current operation, or None if the searcher sets no length."""
    query = select(schema.trials.c.train_to).where(schema.trials.c.id == trial_id)
    return tx.execute(query).scalar()


def asked(tx: Tx, trial_id: int) -> TrialOrders | None:
    row = tx.execute(_OPERATION, {"id": trial_id}).first()
    return None if row is None else TrialOrders(*row)


@dataclass(frozen=True, slots=True)
class WorkloadBasis:
    """The state of a trial from which its next workload follows."""

    state: str
    stop_requested: bool
    parked: bool
    train_to: float | None
    hparams: dict[str, Any]
    config: dict[str, Any]
    newest_is_best: bool
    validated_at: int | None
    saved_at: int | None
    preempted: bool


def work(tx: Tx, trial_id: int) -> WorkloadBasis | None:
    row = tx.execute(_WORK, {"id": trial_id}).first()
    return None if row is None else WorkloadBasis(*row)
