"""Rows of generic tasks, and the trees they form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, func, literal_column, select, text

from det_controlplane.core.lifecycle.task import GenericTaskState, TaskKind
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, one_of
from det_controlplane.db.engine.views import moment, shown
from det_controlplane.db.schema import jobs, tasks, users

_COLUMNS = """k.id, k.state::text AS state, k.parent_id, k.no_pause, k.context_id, k.config, k.sealed, k.job_id, j.pool, j.user_id, u.username,
    j.workspace_id, k.project_id"""
_FROM = "tasks k JOIN jobs j ON j.id = k.job_id JOIN users u ON u.id = j.user_id"
_ONE = text(f"SELECT {_COLUMNS} FROM {_FROM} WHERE k.id = :id AND k.kind = 'GENERIC'")
_LOCK = text(
    f"SELECT {_COLUMNS} FROM {_FROM} WHERE k.id = :id AND k.kind = 'GENERIC' FOR NO KEY UPDATE OF k"
)
_OTHER = text("SELECT kind::text, trial_id, experiment_id FROM tasks WHERE id = :id")
_SETTLE = text("""
    UPDATE tasks SET state = cast(:state AS generic_task_state), parent_id = :parent_id, forked_from = :forked_from,
        no_pause = :no_pause, project_id = :project_id
    WHERE id = :id
""")
_SET_STATE = text(
    "UPDATE tasks SET state = cast(:state AS generic_task_state) WHERE id = :id AND kind = 'GENERIC'"
)
_ROOT = text("""
    WITH RECURSIVE up AS (
        SELECT id, parent_id FROM tasks WHERE id = :id
        UNION SELECT t.id, t.parent_id FROM tasks t JOIN up ON t.id = up.parent_id)
    SELECT id FROM up WHERE parent_id IS NULL OR NOT EXISTS (SELECT 1 FROM tasks p WHERE p.id = up.parent_id) LIMIT 1
""")
# The whole tree below a task, parents before their children; the workspaces that are given, or all.
_TREE = text("""
    WITH RECURSIVE down AS (
        SELECT id, 0 AS depth FROM tasks WHERE id = :id
        UNION SELECT t.id, d.depth + 1 FROM tasks t JOIN down d ON t.parent_id = d.id)
    SELECT d.id FROM down d JOIN tasks k ON k.id = d.id JOIN jobs j ON j.id = k.job_id
    WHERE cast(:within AS integer[]) IS NULL OR j.workspace_id = ANY(:within) ORDER BY d.depth, d.id
""")
_LAST_RUN = text("SELECT coalesce(max(run_id), 0) FROM allocations WHERE task_id = :id")

_k, _j = tasks.c, jobs.c
# The state of its newest run while it is active, otherwise its own state.
_STATE: Any = literal_column("""'STATE_' || CASE WHEN tasks.state <> 'ACTIVE' THEN tasks.state::text ELSE coalesce(
    (SELECT CASE WHEN a.state = 'ASSIGNED' THEN 'QUEUED' ELSE a.state::text END FROM allocations a
     WHERE a.task_id = tasks.id ORDER BY a.run_id DESC LIMIT 1), 'QUEUED') END""")
_SLOTS: Any = literal_column("coalesce((tasks.config #>> '{resources,slots}')::integer, 1)")
_LISTED = Collection(
    "tasks",
    select(
        shown(
            id=_k.id, description=_j.name, state=_STATE, parentId=_k.parent_id, noPause=_k.no_pause, forkedFrom=_k.forked_from,
            startTime=moment(_k.started_at), endTime=moment(_k.ended_at), exitStatus=func.coalesce(_k.exit_status, ""),
            username=users.c.username, displayName=func.coalesce(users.c.display_name, ""), userId=_j.user_id,
            resourcePool=_j.pool, slots=_SLOTS, jobId=_k.job_id, workspaceId=_j.workspace_id, projectId=_k.project_id,
        )
    )
    .select_from(tasks.join(jobs).join(users, users.c.id == _j.user_id))
    .where(_k.kind == TaskKind.GENERIC, _k.trial_id.is_(None)),
    orders={
        "SORT_BY_START_TIME": _k.started_at,
        "SORT_BY_ID": _k.id,
        "SORT_BY_DESCRIPTION": _j.name,
        "SORT_BY_WORKSPACE_ID": _j.workspace_id,
    },
    filters={
        "shown_since": _k.ended_at.is_(None) | (_k.ended_at > bindparam("shown_since")),
        "ids": one_of(_k.id, "ids"),
        "users": one_of(users.c.username, "users"),
        "user_ids": one_of(_j.user_id, "user_ids"),
        "workspace_id": _j.workspace_id == bindparam("workspace_id"),
        "in_workspaces": one_of(_j.workspace_id, "in_workspaces"),
    },
    key=_k.id,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GenericTask:
    id: str
    state: GenericTaskState
    parent_id: str | None
    no_pause: bool
    context_id: UUID | None
    config: dict[str, Any]
    sealed: str | None
    job_id: UUID
    pool: str
    user_id: int
    username: str
    workspace_id: int
    project_id: int | None


def listed(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, filters)


def one(tx: Tx, task_id: str) -> GenericTask | None:
    return _task(tx.execute(_ONE, {"id": task_id}).first())


def lock(tx: Tx, task_id: str) -> GenericTask | None:
    return _task(tx.execute(_LOCK, {"id": task_id}).first())


def _task(row: Any) -> GenericTask | None:
    if row is None:
        return None
    return GenericTask(**{**row._mapping, "state": GenericTaskState(row.state)})


@dataclass(frozen=True, slots=True)
class AnyTask:
    """Hold the kind of a task; for the task of a trial, its trial and experiment."""

    kind: TaskKind
    trial_id: int | None
    experiment_id: int | None


def of_any_kind(tx: Tx, task_id: str) -> AnyTask | None:
    row = tx.execute(_OTHER, {"id": task_id}).first()
    return None if row is None else AnyTask(TaskKind(row.kind), row.trial_id, row.experiment_id)


def settle(
    tx: Tx,
    task_id: str,
    *,
    parent_id: str | None,
    forked_from: str | None,
    no_pause: bool,
    project_id: int,
) -> None:
    """Make a new task a generic one, which is active and has its place in a tree."""
    values = {
        "id": task_id, "state": GenericTaskState.ACTIVE.value, "parent_id": parent_id, "forked_from": forked_from,
        "no_pause": no_pause, "project_id": project_id,
    }  # fmt: skip
    tx.execute(_SETTLE, values)


def set_state(tx: Tx, task_id: str, state: GenericTaskState) -> None:
    tx.execute(_SET_STATE, {"id": task_id, "state": state.value})


def root_of(tx: Tx, task_id: str) -> str:
    return str(tx.execute(_ROOT, {"id": task_id}).scalar_one())


def tree_below(tx: Tx, task_id: str, within: Sequence[int] | None = None) -> list[str]:
    """Return a task and its descendants, parents first. `within` limits them to workspaces."""
    scope = {"within": None if within is None else list(within)}
    return list(tx.execute(_TREE, {"id": task_id, **scope}).scalars())


def last_run(tx: Tx, task_id: str) -> int:
    return int(tx.execute(_LAST_RUN, {"id": task_id}).scalar_one())
