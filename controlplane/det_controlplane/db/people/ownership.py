"""Read the owner of a thing, whether its own process runs it, and its workspace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Integer, Text, TextClause, column, select, text

from det_controlplane.db.engine.database import Database

_TRIAL = text("""SELECT e.user_id, e.unmanaged, e.id AS experiment_id FROM trials t
    JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id""")
_TRIALS = text("""SELECT t.id, e.user_id, e.unmanaged, e.id AS experiment_id FROM trials t
    JOIN experiments e ON e.id = t.experiment_id WHERE t.id = ANY(cast(:ids AS bigint[]))""")
_EXPERIMENT = text("SELECT user_id, unmanaged, id AS experiment_id FROM experiments WHERE id = :id")
_TASK = text("""SELECT coalesce(e.user_id, j.user_id) AS user_id, coalesce(e.unmanaged, false) AS unmanaged, e.id AS experiment_id
    FROM tasks t JOIN jobs j ON j.id = t.job_id LEFT JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id""")
_ALLOCATION = text("""SELECT coalesce(e.user_id, j.user_id) AS user_id, coalesce(e.unmanaged, false) AS unmanaged, e.id AS experiment_id
    FROM allocations a JOIN tasks t ON t.id = a.task_id JOIN jobs j ON j.id = t.job_id
    LEFT JOIN experiments e ON e.id = t.experiment_id WHERE a.id = :id""")
_CHECKPOINT = text("""SELECT e.user_id, e.unmanaged, e.id AS experiment_id FROM checkpoints c
    JOIN experiments e ON e.id = c.experiment_id WHERE c.uuid = :id""")
_COLLECTS = text("""SELECT 1 FROM checkpoints c JOIN experiments e ON e.id = c.experiment_id JOIN tasks k ON k.id = :task_id
    JOIN jobs j ON j.id = k.job_id WHERE c.uuid = :uuid AND e.state = 'DELETING' AND k.kind = 'CHECKPOINT_GC' AND j.user_id = e.user_id""")
_CHECKPOINTS = text("""SELECT DISTINCT ON (e.user_id) c.uuid, e.user_id FROM checkpoints c
    JOIN experiments e ON e.id = c.experiment_id WHERE c.uuid = ANY(cast(cast(:names AS text[]) AS uuid[]))""")

_OF_TASK = text("""SELECT c.uuid::text AS name FROM checkpoints c
    LEFT JOIN trials t ON t.id = :trial_id AND t.warm_start_uuid = c.uuid
    WHERE c.uuid = ANY(cast(cast(:names AS text[]) AS uuid[]))
      AND (c.experiment_id = :experiment_id OR (:started AND t.id IS NOT NULL))""")

# Statements with the texts :names. Numbers are compared as numbers.
_NUMBERS = "ANY(cast(cast(:names AS text[]) AS bigint[]))"
_TEXTS = "ANY(cast(:names AS text[]))"
_UUIDS = "ANY(cast(cast(:names AS text[]) AS uuid[]))"
_OF_PROJECT = "projects p ON p.id = e.project_id"
_WORKSPACE_OF: Mapping[str, str] = {
    "workspace": f"SELECT w.id::text AS name, w.id AS workspace_id FROM workspaces w WHERE w.id = {_NUMBERS}",
    "project": f"SELECT p.id::text AS name, p.workspace_id FROM projects p WHERE p.id = {_NUMBERS}",
    "project-key": "SELECT n AS name, p.workspace_id FROM unnest(cast(:names AS text[])) n JOIN projects p ON p.key = upper(n)",
    "experiment": f"SELECT e.id::text AS name, p.workspace_id FROM experiments e JOIN {_OF_PROJECT} WHERE e.id = {_NUMBERS}",
    "experiment-external": f"SELECT e.external_id AS name, p.workspace_id FROM experiments e JOIN {_OF_PROJECT} WHERE e.external_id = {_TEXTS}",
    "trial": f"""SELECT t.id::text AS name, p.workspace_id FROM trials t JOIN experiments e ON e.id = t.experiment_id
                 JOIN {_OF_PROJECT} WHERE t.id = {_NUMBERS}""",
    "task": f"SELECT k.id AS name, j.workspace_id FROM tasks k JOIN jobs j ON j.id = k.job_id WHERE k.id = {_TEXTS}",
    "allocation": f"SELECT a.id AS name, j.workspace_id FROM allocations a JOIN jobs j ON j.id = a.job_id WHERE a.id = {_TEXTS}",
    # A checkpoint without an experiment belongs to the cluster; only administrators may delete it.
    "checkpoint": f"""SELECT c.uuid::text AS name, coalesce(p.workspace_id, 0) AS workspace_id FROM checkpoints c
                      LEFT JOIN experiments e ON e.id = c.experiment_id LEFT JOIN {_OF_PROJECT} WHERE c.uuid = {_UUIDS}""",
    "job": f"SELECT j.id::text AS name, j.workspace_id FROM jobs j WHERE j.id = {_UUIDS}",
    # Digits are an id, anything else is a name.
    "model": """SELECT n AS name, m.workspace_id FROM unnest(cast(:names AS text[])) n
                 JOIN models m ON CASE WHEN n ~ '^[0-9]{1,9}$' THEN m.id::text = n ELSE m.name = n END""",
    "template": f"SELECT t.name AS name, t.workspace_id FROM templates t WHERE t.name = {_TEXTS}",
}
WORK_KINDS = ("task", "allocation")  # of experiments, or of none
_NO_EXPERIMENT = "k.kind NOT IN ('TRIAL', 'CHECKPOINT_GC')"
_OF_NO_EXPERIMENT: Mapping[str, TextClause] = {
    "task": text(f"SELECT EXISTS (SELECT FROM tasks k WHERE k.id = :name AND {_NO_EXPERIMENT})"),
    "allocation": text(f"""SELECT EXISTS (SELECT FROM allocations a JOIN tasks k ON k.id = a.task_id
                           WHERE a.id = :name AND {_NO_EXPERIMENT})"""),
}
_WORKSPACES_OF: Mapping[str, TextClause] = {kind: text(sql) for kind, sql in _WORKSPACE_OF.items()}


@dataclass(frozen=True, slots=True)
class Owned:
    user_id: int
    unmanaged: bool
    experiment_id: int | None


def of_trial(db: Database, trial_id: int) -> Owned | None:
    return _read_owned(db, _TRIAL, trial_id)


def of_trials(db: Database, trial_ids: Sequence[int]) -> dict[int, Owned]:
    rows = db.read(_TRIALS, {"ids": list(trial_ids)})
    return {row.id: Owned(row.user_id, row.unmanaged, row.experiment_id) for row in rows}


def of_experiment(db: Database, experiment_id: int) -> Owned | None:
    return _read_owned(db, _EXPERIMENT, experiment_id)


def of_task(db: Database, task_id: str) -> Owned | None:
    return _read_owned(db, _TASK, task_id)


def of_allocation(db: Database, allocation_id: str) -> Owned | None:
    return _read_owned(db, _ALLOCATION, allocation_id)


def of_checkpoint(db: Database, uuid: UUID) -> Owned | None:
    """Return None for a checkpoint that is not there, or is of no experiment."""
    return _read_owned(db, _CHECKPOINT, uuid)


def is_collected_by(db: Database, uuid: UUID, task_id: str) -> bool:
    """Return whether a checkpoint may be deleted by a task that deletes the files of several experiments of its owner."""
    return bool(db.read(_COLLECTS, {"uuid": uuid, "task_id": task_id}))


def checkpoints_by_owner(db: Database, uuids: Sequence[UUID]) -> dict[int, UUID]:
    """Return one checkpoint for each user who owns some of the checkpoints."""
    rows = db.read(_CHECKPOINTS, {"names": [str(uuid) for uuid in uuids]})
    return {int(row.user_id): row.uuid for row in rows}


def checkpoints_of_task(
    db: Database,
    uuids: Sequence[str],
    experiment_id: int | None,
    trial_id: int | None,
    *,
    started: bool,
) -> set[str]:
    """Return the checkpoints that belong to an experiment or, on request, are the source of a trial."""
    params = {"experiment_id": experiment_id, "trial_id": trial_id, "started": started}
    return {str(row.name) for row in db.read(_OF_TASK, {"names": list(uuids), **params})}


def _read_owned(db: Database, query: TextClause, id: Any) -> Owned | None:
    for row in db.read(query, {"id": id}):
        return Owned(row.user_id, row.unmanaged, row.experiment_id)
    return None


def workspace_expression(kind: str) -> Any:
    """Return the SQL expression for the workspace of one object; :names contains only its name."""
    table = text(_WORKSPACE_OF[kind]).columns(column("name", Text), column("workspace_id", Integer))
    return select(table.subquery().c.workspace_id).limit(1).scalar_subquery()


def is_of_no_experiment(db: Database, kind: str, name: str) -> bool:
    """Return whether a task, or the task of an allocation, is a notebook, command, shell or TensorBoard."""
    return any(row[0] for row in db.read(_OF_NO_EXPERIMENT[kind], {"name": name}))


def workspaces_of(db: Database, kind: str, names: Sequence[str]) -> dict[str, int]:
    """Return the workspace of each thing that is there, by the name that was asked for."""
    rows = db.read(_WORKSPACES_OF[kind], {"names": list(names)})
    return {str(row.name): int(row.workspace_id) for row in rows}
