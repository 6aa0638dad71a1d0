"""Delete experiments, projects and workspaces with the rows that were only theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, text, update

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.db.engine.database import Tx
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

_OWN = text("""
    SELECT e.context_id, array(SELECT k.job_id FROM tasks k WHERE k.experiment_id = e.id) || e.job_id AS jobs
    FROM experiments e WHERE e.id = :id AND e.state = 'DELETING' FOR UPDATE
""")
_LOGS = text(
    "DELETE FROM task_logs WHERE task_id IN (SELECT id FROM tasks WHERE experiment_id = :id)"
)
_LOG_SPANS = text(
    "DELETE FROM task_log_spans WHERE task_id IN (SELECT id FROM tasks WHERE experiment_id = :id)"
)
_SESSIONS = text("""
    DELETE FROM sessions WHERE allocation_id IN (
        SELECT a.id FROM allocations a JOIN tasks k ON k.id = a.task_id WHERE k.experiment_id = :id)
""")
_EXPERIMENT = text("DELETE FROM experiments WHERE id = :id")
_JOBS = text("DELETE FROM jobs WHERE id = ANY(cast(:jobs AS uuid[]))")
# Forks share their parent's.
_CONTEXT = text("""
    DELETE FROM contexts c WHERE c.id = :id AND NOT EXISTS (SELECT 1 FROM experiments e WHERE e.context_id = c.id)
        AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.context_id = c.id)
    RETURNING c.object_key
""")


# A statement deletes so many rows in less than a second. A search may have ten million metrics.
PART_ROWS = 20_000
_PART_TRIALS = 100
_DELETING = text("SELECT 1 FROM experiments WHERE id = :id AND state = 'DELETING' FOR UPDATE")
_NEXT_TRIALS = text("""
    SELECT t.id, array(SELECT k.id FROM tasks k WHERE k.trial_id = t.id) AS tasks
    FROM trials t WHERE t.experiment_id = :id ORDER BY t.id LIMIT :trials
""")
_SOME_METRICS = text("""
    DELETE FROM metrics WHERE id = ANY(ARRAY(
        SELECT id FROM metrics WHERE trial_id = ANY(cast(:trials AS integer[])) LIMIT :rows))
""")
_SOME_LOGS = text("""
    DELETE FROM task_logs WHERE id = ANY(ARRAY(
        SELECT id FROM task_logs WHERE task_id = ANY(cast(:tasks AS text[])) LIMIT :rows))
""")
_SPANS_OF_TASKS = text("DELETE FROM task_log_spans WHERE task_id = ANY(cast(:tasks AS text[]))")
_SESSIONS_OF_TASKS = text("""
    DELETE FROM sessions WHERE allocation_id IN (
        SELECT id FROM allocations WHERE task_id = ANY(cast(:tasks AS text[])))
""")
_TRIALS = text("DELETE FROM trials WHERE id = ANY(cast(:trials AS integer[]))")


def delete_part(tx: Tx, experiment_id: int) -> bool:
    """Delete some metrics, logs or trials of an experiment that is being deleted; return whether there were any."""
    if tx.execute(_DELETING, {"id": experiment_id}).first() is None:
        return False
    rows = tx.execute(_NEXT_TRIALS, {"id": experiment_id, "trials": _PART_TRIALS}).all()
    if not rows:
        return False
    trials, tasks_of_trials = [row.id for row in rows], [id for row in rows for id in row.tasks]
    for statement, ids in (
        (_SOME_METRICS, {"trials": trials}),
        (_SOME_LOGS, {"tasks": tasks_of_trials}),
    ):
        if tx.execute(statement, {**ids, "rows": PART_ROWS}).rowcount:
            return True
    usage.keep_of_tasks(tx, tasks_of_trials)
    for statement in (_SPANS_OF_TASKS, _SESSIONS_OF_TASKS):
        tx.execute(statement, {"tasks": tasks_of_trials})
    tx.execute(_TRIALS, {"trials": trials})
    return True


def delete_experiment(tx: Tx, experiment_id: int) -> str | None:
    """Delete an experiment; return the key of an object that nothing refers to any more, if there is one."""
    own = tx.execute(_OWN, {"id": experiment_id}).first()
    if own is None:
        return None
    usage.keep_of_experiment(tx, experiment_id)
    for statement in (_LOGS, _LOG_SPANS, _SESSIONS, _EXPERIMENT):
        tx.execute(statement, {"id": experiment_id})
    tx.execute(_JOBS, {"jobs": own.jobs})
    key: str | None = tx.execute(_CONTEXT, {"id": own.context_id}).scalar()
    return key


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
    """Return an experiment of another user, and that user; None where there is none."""
    e = experiments.c
    inside = select(e.id, e.user_id).join(projects).where(_inside(kind, id), e.user_id != user_id)
    row = tx.execute(inside.order_by(e.id).limit(1)).first()
    return None if row is None else (row.id, row.user_id)


def count_models(tx: Tx, workspace_id: int) -> int:
    own = select(func.count()).where(models.c.workspace_id == workspace_id)
    return tx.execute(own).scalar_one()


@dataclass(frozen=True, slots=True)
class LiveTask:
    id: str
    kind: TaskKind


def live_tasks(tx: Tx, kind: Kind, id: int) -> list[LiveTask]:
    """Return tasks of users that have not ended; those of trials belong to experiments."""
    t = tasks.c
    place = t.project_id if kind == "project" else jobs.c.workspace_id
    found = select(t.id, t.kind).join(jobs).where(place == id)
    of_users = t.kind.not_in([TaskKind.TRIAL, TaskKind.CHECKPOINT_GC])
    rows = tx.execute(found.where(t.ended_at.is_(None), of_users).order_by(t.started_at, t.id))
    return [LiveTask(*row) for row in rows]


def wait_for(tx: Tx, workspace_id: int, reason: str) -> None:
    """Show why a workspace that is being deleted is still there."""
    waiting = update(workspaces).where(workspaces.c.id == workspace_id)
    tx.execute(waiting.values(error_message=reason))


def begin(tx: Tx, kind: Kind, id: int) -> None:
    deleting = {"state": DeletionState.DELETING, "error_message": ""}
    tx.execute(update(projects).where(_inside(kind, id)).values(deleting))
    if kind == "workspace":
        tx.execute(update(workspaces).where(workspaces.c.id == id).values(deleting))


def try_again(tx: Tx, kind: Kind, id: int) -> list[int]:
    """Take up the experiments of a place that could not be deleted; return them."""
    of_place = select(projects.c.id).where(_inside(kind, id))
    failed = (experiments.c.state == ExperimentState.DELETE_FAILED) & (
        experiments.c.project_id.in_(of_place)
    )
    taken_up = update(experiments).where(failed).values(state=ExperimentState.DELETING)
    return list(tx.execute(taken_up.returning(experiments.c.id)).scalars())


def is_under_way(tx: Tx, kind: Kind, id: int) -> bool:
    """Return whether a place is being deleted; until the transaction ends nobody begins that anew."""
    own = _TABLES[kind].c
    state = tx.execute(select(own.state).where(own.id == id).with_for_update()).scalar()
    return state is DeletionState.DELETING


def fail(tx: Tx, kind: Kind, id: int, error: str) -> None:
    """End the deletion of a place that is under way, and show why."""
    table = _TABLES[kind]
    failed = {"state": DeletionState.DELETE_FAILED, "error_message": error}
    tx.execute(update(table).where(table.c.id == id).values(failed))


def projects_left(tx: Tx, workspace_id: int) -> list[int]:
    left = select(projects.c.id).where(projects.c.workspace_id == workspace_id)
    return list(tx.execute(left.order_by(projects.c.id)).scalars())


def holds(tx: Tx, project_id: int, experiment_id: int) -> bool:
    """Return whether a project has an experiment, which may have been moved."""
    e = experiments.c
    held = select(e.id).where(e.id == experiment_id, e.project_id == project_id)
    return tx.execute(held).first() is not None


def experiments_left(tx: Tx, project_id: int) -> list[int]:
    """Return the experiments of a project that are still to be deleted, or being deleted."""
    e = experiments.c
    left = select(e.id).where(e.project_id == project_id, e.state != ExperimentState.DELETE_FAILED)
    return list(tx.execute(left.order_by(e.id)).scalars())


@dataclass(frozen=True, slots=True)
class Failure:
    """A thing that could not be deleted, and why."""

    name: str
    error: str


def failed_experiments(tx: Tx, project_id: int) -> list[Failure]:
    e = experiments.c
    failed = select(e.id, e.error).where(
        e.project_id == project_id, e.state == ExperimentState.DELETE_FAILED
    )
    return [Failure(f"experiment {r.id}", r.error) for r in tx.execute(failed.order_by(e.id)).all()]


def failed_projects(tx: Tx, workspace_id: int) -> list[Failure]:
    p = projects.c
    failed = select(p.name, p.error_message).where(
        p.workspace_id == workspace_id, p.state == DeletionState.DELETE_FAILED
    )
    return [Failure(f"project '{r[0]}'", r[1]) for r in tx.execute(failed.order_by(p.id)).all()]


def has_projects_to_delete(tx: Tx, workspace_id: int) -> bool:
    """Return whether a workspace has a project whose deletion has not failed."""
    p = projects.c
    failed = func.coalesce(p.state == DeletionState.DELETE_FAILED, False)
    left = select(p.id).where(p.workspace_id == workspace_id, ~failed)
    return tx.execute(left.limit(1)).first() is not None


def finish(tx: Tx, kind: Kind, id: int) -> None:
    if kind == "workspace":
        usage.keep_of_workspace(tx, id)
        own = select(jobs.c.id).where(jobs.c.workspace_id == id)
        tx.execute(delete(tasks).where(tasks.c.job_id.in_(own)))
        tx.execute(delete(config_policies).where(config_policies.c.workspace_id == id))
    tx.execute(delete(_TABLES[kind]).where(_TABLES[kind].c.id == id))


def _inside(kind: Kind, id: int) -> ColumnElement[bool]:
    return (projects.c.id if kind == "project" else projects.c.workspace_id) == id
