"""Find the workspaces of the objects that requests name."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Integer, Text, TextClause, column, select, text

from det_controlplane.db.engine.database import Database

# Statements with the texts :names. Numbers are compared as numbers.
_NUMBERS = "ANY(cast(cast(:names AS text[]) AS bigint[]))"
_TEXTS = "ANY(cast(:names AS text[]))"
_UUIDS = "ANY(cast(cast(:names AS text[]) AS uuid[]))"
_OF_PROJECT = "projects p ON p.id = e.project_id"
_OF: Mapping[str, str] = {
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
WORK = ("task", "allocation")  # of experiments, or of none
_NO_EXPERIMENT = "k.kind NOT IN ('TRIAL', 'CHECKPOINT_GC')"
_OF_NO_EXPERIMENT: Mapping[str, TextClause] = {
    "task": text(f"SELECT EXISTS (SELECT FROM tasks k WHERE k.id = :name AND {_NO_EXPERIMENT})"),
    "allocation": text(f"""SELECT EXISTS (SELECT FROM allocations a JOIN tasks k ON k.id = a.task_id
                           WHERE a.id = :name AND {_NO_EXPERIMENT})"""),
}
_STATEMENTS: Mapping[str, TextClause] = {kind: text(sql) for kind, sql in _OF.items()}


def one(kind: str) -> Any:
    """Return the SQL expression for the workspace of one object; :names contains only its name."""
    table = text(_OF[kind]).columns(column("name", Text), column("workspace_id", Integer))
    return select(table.subquery().c.workspace_id).limit(1).scalar_subquery()


def is_of_no_experiment(db: Database, kind: str, name: str) -> bool:
    """Return whether a task, or the task of an allocation, is a notebook, command, shell or TensorBoard."""
    return any(row[0] for row in db.read(_OF_NO_EXPERIMENT[kind], {"name": name}))


def of(db: Database, kind: str, names: Sequence[str]) -> dict[str, int]:
    """Return the workspace of each thing that is there, by the name that was asked for."""
    rows = db.read(_STATEMENTS[kind], {"names": list(names)})
    return {str(row.name): int(row.workspace_id) for row in rows}
