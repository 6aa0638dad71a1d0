"""Read the owner of a thing, and whether its own process runs it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import TextClause, text

from det_controlplane.db.engine import Database

_TRIAL = text("""SELECT e.user_id, e.unmanaged, e.id AS experiment_id FROM trials t
    JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id""")
_EXPERIMENT = text("SELECT user_id, unmanaged, id AS experiment_id FROM experiments WHERE id = :id")
_TASK = text("""SELECT coalesce(e.user_id, j.user_id) AS user_id, coalesce(e.unmanaged, false) AS unmanaged, e.id AS experiment_id
    FROM tasks t JOIN jobs j ON j.id = t.job_id LEFT JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id""")
_CHECKPOINT = text("""SELECT e.user_id, e.unmanaged, e.id AS experiment_id FROM checkpoints c
    JOIN experiments e ON e.id = c.experiment_id WHERE c.uuid = :id""")


@dataclass(frozen=True, slots=True)
class Owned:
    user_id: int
    unmanaged: bool
    experiment_id: int | None


def of_trial(db: Database, trial_id: int) -> Owned | None:
    return _found(db, _TRIAL, trial_id)


def of_experiment(db: Database, experiment_id: int) -> Owned | None:
    return _found(db, _EXPERIMENT, experiment_id)


def of_task(db: Database, task_id: str) -> Owned | None:
    return _found(db, _TASK, task_id)


def of_checkpoint(db: Database, uuid: UUID) -> Owned | None:
    """Return None for a checkpoint that is not there, or is of no experiment."""
    return _found(db, _CHECKPOINT, uuid)


def _found(db: Database, query: TextClause, id: Any) -> Owned | None:
    for row in db.read(query, {"id": id}):
        return Owned(row.user_id, row.unmanaged, row.experiment_id)
    return None
