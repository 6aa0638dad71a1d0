"""Delete projects and workspaces after their experiments (db/experiments/deletion_parts.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, text, update

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments.deletion_parts import PART_ROWS
from det_controlplane.db.money import usage
from det_controlplane.db.people.workspaces import Kind
from det_controlplane.db.schema import (
    config_policies,
    experiments,
    jobs,
    models,
    projects,
    tasks,
    workspaces,
)
from det_controlplane.db.schema.enums import DeletionState
from det_controlplane.db.tasks import ended_tasks

_PART_TASKS = 100
_ENDED_TASKS = text("""
    SELECT k.id FROM tasks k JOIN jobs j ON j.id = k.job_id
    WHERE j.workspace_id = :id AND k.experiment_id IS NULL AND k.ended_at IS NOT NULL ORDER BY k.id LIMIT :most
""")
# Zero stands for none.
_REGISTERED = text("""
    SELECT c.experiment_id, m.name AS model, v.version FROM model_versions v JOIN models m ON m.id = v.model_id
    JOIN checkpoints c ON c.uuid = v.checkpoint_uuid JOIN experiments e ON e.id = c.experiment_id
    JOIN projects p ON p.id = e.project_id
    WHERE e.id = :experiment_id OR p.id = :project_id OR p.workspace_id = :workspace_id LIMIT 1
""")
_STARTED_FROM = text("""
    SELECT t.id, t.experiment_id, c.uuid FROM trials t JOIN checkpoints c ON c.uuid = t.warm_start_uuid
    JOIN experiments e ON e.id = c.experiment_id JOIN projects p ON p.id = e.project_id
    JOIN experiments o ON o.id = t.experiment_id JOIN projects op ON op.id = o.project_id
    WHERE t.ended_at IS NULL AND t.experiment_id <> c.experiment_id
      AND (e.id = :experiment_id OR p.id = :project_id OR p.workspace_id = :workspace_id)
      AND op.id <> :project_id AND op.workspace_id <> :workspace_id ORDER BY t.id LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class RegisteredCheckpoint:
    """A checkpoint that a version of a model needs."""

    experiment_id: int
    model: str
    version: int


@dataclass(frozen=True, slots=True)
class StartedTrial:
    """A live trial that needs a checkpoint of another experiment."""

    id: int
    experiment_id: int
    checkpoint: UUID


@dataclass(frozen=True, slots=True)
class Contents:
    """The number of objects that a deletion would take along."""

    projects: int
    experiments: int
    live: int  # experiments that have not ended


def registered_checkpoint(tx: Tx, scope: Mapping[str, int]) -> RegisteredCheckpoint | None:
    row = tx.execute(_REGISTERED, scope).first()
    return None if row is None else RegisteredCheckpoint(*row)


def started_trial(tx: Tx, scope: Mapping[str, int]) -> StartedTrial | None:
    row = tx.execute(_STARTED_FROM, scope).first()
    return None if row is None else StartedTrial(*row)


_TABLES = {"project": projects, "workspace": workspaces}


def contents(tx: Tx, kind: Kind, id: int) -> Contents:
    inside = projects.outerjoin(experiments)
    live = experiments.c.ended_at.is_(None) & experiments.c.id.is_not(None)
    counts = (
        func.count(projects.c.id.distinct()),
        func.count(experiments.c.id),
        func.count().filter(live),
    )
    return Contents(*tx.execute(select(*counts).select_from(inside).where(_inside(kind, id))).one())


def of_another(tx: Tx, kind: Kind, id: int, user_id: int) -> tuple[int, int] | None:
    """Return an experiment of another user with its owner, or None."""
    e = experiments.c
    inside = select(e.id, e.user_id).join(projects).where(_inside(kind, id), e.user_id != user_id)
    row = tx.execute(inside.order_by(e.id).limit(1)).first()
    return None if row is None else (row.id, row.user_id)


def count_models(tx: Tx, workspace_id: int) -> int:
    own = select(func.count()).where(models.c.workspace_id == workspace_id)
    return tx.execute(own).scalar_one()


@dataclass(frozen=True, slots=True)
class TasksPart:
    """A part of the tasks of a workspace that was deleted."""

    is_last: bool
    unused: list[str]  # keys of objects that are no longer referenced


@dataclass(frozen=True, slots=True)
class LiveTask:
    id: str
    kind: TaskKind


def live_tasks(tx: Tx, kind: Kind, id: int) -> list[LiveTask]:
    """Return live tasks of users. Tasks of trials belong to experiments and are left out."""
    t = tasks.c
    place = t.project_id if kind == "project" else jobs.c.workspace_id
    query = select(t.id, t.kind).join(jobs).where(place == id)
    of_users = t.kind.not_in([TaskKind.TRIAL, TaskKind.CHECKPOINT_GC])
    rows = tx.execute(query.where(t.ended_at.is_(None), of_users).order_by(t.started_at, t.id))
    return [LiveTask(*row) for row in rows]


def has_tasks(tx: Tx, workspace_id: int) -> bool:
    of_workspace = select(tasks.c.id).join(jobs).where(jobs.c.workspace_id == workspace_id)
    return tx.execute(of_workspace.limit(1)).first() is not None


def wait_for(tx: Tx, kind: Kind, id: int, reason: str) -> None:
    """Show why a project or workspace that is being deleted is still there."""
    table = _TABLES[kind]
    tx.execute(update(table).where(table.c.id == id).values(error_message=reason))


def begin(tx: Tx, kind: Kind, id: int) -> None:
    deleting = {"state": DeletionState.DELETING, "error_message": ""}
    tx.execute(update(projects).where(_inside(kind, id)).values(deleting))
    if kind == "workspace":
        tx.execute(update(workspaces).where(workspaces.c.id == id).values(deleting))


def try_again(tx: Tx, kind: Kind, id: int) -> list[int]:
    """Retry the failed deletions of experiments in a project or workspace. Return these experiments."""
    of_place = select(projects.c.id).where(_inside(kind, id))
    condition = (experiments.c.state == ExperimentState.DELETE_FAILED) & (
        experiments.c.project_id.in_(of_place)
    )
    statement = update(experiments).where(condition).values(state=ExperimentState.DELETING)
    return list(tx.execute(statement.returning(experiments.c.id)).scalars())


def is_under_way(tx: Tx, kind: Kind, id: int) -> bool:
    """Return whether a project or workspace is being deleted, and prevent another begin until the transaction ends."""
    own = _TABLES[kind].c
    state = tx.execute(select(own.state).where(own.id == id).with_for_update()).scalar()
    return state is DeletionState.DELETING


def fail(tx: Tx, kind: Kind, id: int, error: str) -> None:
    """End the deletion of a place that is under way, and show why."""
    table = _TABLES[kind]
    values = {"state": DeletionState.DELETE_FAILED, "error_message": error}
    tx.execute(update(table).where(table.c.id == id).values(values))


def projects_left(tx: Tx, workspace_id: int) -> list[int]:
    query = select(projects.c.id).where(projects.c.workspace_id == workspace_id)
    return list(tx.execute(query.order_by(projects.c.id)).scalars())


def holds(tx: Tx, project_id: int, experiment_id: int) -> bool:
    """Return whether a project has an experiment, which may have been moved."""
    e = experiments.c
    query = select(e.id).where(e.id == experiment_id, e.project_id == project_id)
    return tx.execute(query).first() is not None


def next_experiments(tx: Tx, project_id: int, most: int) -> list[int]:
    """Return some experiments of a project for which no deletion has begun."""
    e = experiments.c
    states = (ExperimentState.DELETING, ExperimentState.DELETE_FAILED)
    waiting = select(e.id).where(e.project_id == project_id, e.state.not_in(states))
    return list(tx.execute(waiting.order_by(e.id).limit(most)).scalars())


def count_left(tx: Tx, project_id: int) -> int:
    """Return how many experiments of a project still wait for their deletion or are being deleted."""
    e = experiments.c
    query = select(func.count()).where(
        e.project_id == project_id, e.state != ExperimentState.DELETE_FAILED
    )
    return tx.execute(query).scalar_one()


def delete_tasks(tx: Tx, workspace_id: int) -> TasksPart:
    """Delete some ended tasks of a workspace, or some lines of their logs."""
    ids = list(tx.execute(_ENDED_TASKS, {"id": workspace_id, "most": _PART_TASKS}).scalars())
    if not ids:
        return TasksPart(True, [])
    if ended_tasks.delete_logs(tx, ids, PART_ROWS):
        return TasksPart(False, [])
    return TasksPart(False, ended_tasks.delete(tx, ids))


@dataclass(frozen=True, slots=True)
class Failure:
    """A thing that could not be deleted, and why."""

    name: str
    error: str


def failed_experiments(tx: Tx, project_id: int) -> list[Failure]:
    e = experiments.c
    query = select(e.id, e.error).where(
        e.project_id == project_id, e.state == ExperimentState.DELETE_FAILED
    )
    return [Failure(f"experiment {r.id}", r.error) for r in tx.execute(query.order_by(e.id)).all()]


def failed_projects(tx: Tx, workspace_id: int) -> list[Failure]:
    p = projects.c
    query = select(p.name, p.error_message).where(
        p.workspace_id == workspace_id, p.state == DeletionState.DELETE_FAILED
    )
    return [Failure(f"project '{r[0]}'", r[1]) for r in tx.execute(query.order_by(p.id)).all()]


def has_projects_to_delete(tx: Tx, workspace_id: int) -> bool:
    """Return whether a workspace has a project with a deletion that has not failed."""
    p = projects.c
    has_failed = func.coalesce(p.state == DeletionState.DELETE_FAILED, False)
    query = select(p.id).where(p.workspace_id == workspace_id, ~has_failed)
    return tx.execute(query.limit(1)).first() is not None


def finish(tx: Tx, kind: Kind, id: int) -> None:
    if kind == "workspace":
        usage.keep_of_workspace(tx, id)
        own = select(jobs.c.id).where(jobs.c.workspace_id == id)
        tx.execute(delete(tasks).where(tasks.c.job_id.in_(own)))
        tx.execute(delete(config_policies).where(config_policies.c.workspace_id == id))
    tx.execute(delete(_TABLES[kind]).where(_TABLES[kind].c.id == id))


def _inside(kind: Kind, id: int) -> ColumnElement[bool]:
    return (projects.c.id if kind == "project" else projects.c.workspace_id) == id
