"""Rows of commands, notebooks, shells, TensorBoards and generic tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, case, func, insert, literal_column, select, text

from det_controlplane.core.lifecycle.task import NAMES, GenericTaskState, TaskKind
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, one_of
from det_controlplane.db.engine.views import moment, shown
from det_controlplane.db.schema import jobs, tasks, users

_k, _j = tasks.c, jobs.c
_NEWEST = "FROM allocations a WHERE a.task_id = tasks.id ORDER BY a.run_id DESC LIMIT 1"
_STATE: Any = literal_column(f"""coalesce((SELECT 'STATE_' || CASE WHEN a.state = 'ASSIGNED' THEN 'QUEUED' ELSE a.state::text END
    {_NEWEST}), 'STATE_QUEUED')""")
_CONTAINER: Any = literal_column("""(SELECT json_build_object('parent', '', 'id', c.id, 'state', 'STATE_' || c.state,
        'devices', '[]'::json, 'permissionDenied', false)
    FROM containers c JOIN allocations a ON a.id = c.allocation_id
    WHERE a.task_id = tasks.id AND c.epoch = a.epoch AND c.state <> 'TERMINATED' ORDER BY c.assigned_at DESC LIMIT 1)""")
# The account of the program, which Determined's client uses to log in. Empty stands for root. A running shell reported
# it, because processes of an agent without root rights run as its user.
_WHO: Any = literal_column("""(SELECT json_build_object('user', coalesce(tasks.config#>>'{_shell,user}', w.who->>'agentUser', ''), 'uid', coalesce((w.who->>'agentUid')::integer, 0),
        'group', coalesce(w.who->>'agentGroup', ''), 'gid', coalesce((w.who->>'agentGid')::integer, 0))
    FROM (SELECT coalesce(users.agent_user, (SELECT x.agent_user FROM workspaces x WHERE x.id = jobs.workspace_id)) AS who) w)""")
_OF_TENSORBOARD: Any = literal_column("tasks.config->'_reads'")
_FIELDS: dict[str, Any] = {
    "id": _k.id,
    "description": _j.name,
    "state": _STATE,
    "startTime": moment(_k.started_at),
    "container": _CONTAINER,
    "username": users.c.username,
    "displayName": func.coalesce(users.c.display_name, ""),
    "userId": _j.user_id,
    "resourcePool": _j.pool,
    "exitStatus": func.coalesce(_k.exit_status, ""),
    # Clients of Determined know only that a task has terminated.
    "outcome": case((_k.ended_at.is_not(None), func.concat("STATE_", _j.work_state))),
    "jobId": _k.job_id,
    "workspaceId": _j.workspace_id,
}
_SERVICE = func.concat("/proxy/", _k.id, "/")
_KEYS: dict[str, Any] = {
    "publicKey": func.coalesce(literal_column("tasks.config#>>'{_shell,public_key}'"), "")
}
_MORE: dict[TaskKind, dict[str, Any]] = {
    TaskKind.COMMAND: {},
    TaskKind.NOTEBOOK: {"serviceAddress": _SERVICE},
    TaskKind.SHELL: {
        **_KEYS,
        "privateKey": literal_column("''"),
        "addresses": literal_column("'[]'::json"),
"agentUserGroup": _WHO,
    },
    TaskKind.TENSORBOARD: {
        "serviceAddress": _SERVICE,
        "experimentIds": func.coalesce(_OF_TENSORBOARD.op("->")("experiment_ids"), literal_column("'[]'::jsonb")),
        "trialIds": func.coalesce(_OF_TENSORBOARD.op("->")("trial_ids"), literal_column("'[]'::jsonb")),
    },
}  # fmt: skip
_FROM = tasks.join(jobs).join(users, users.c.id == _j.user_id)
# The index `tasks_by_kind` has rows with this condition only.
_NOT_A_TRIAL = _k.trial_id.is_(None)


def _collection(kind: TaskKind) -> Collection:
    return Collection(
        f"{NAMES[kind]}s",
        select(shown(**_FIELDS, **_MORE[kind]))
        .select_from(_FROM)
        .where(_k.kind == kind, _NOT_A_TRIAL),
        orders={
            "SORT_BY_ID": _k.id,
            "SORT_BY_DESCRIPTION": _j.name,
            "SORT_BY_START_TIME": _k.started_at,
            "SORT_BY_WORKSPACE_ID": _j.workspace_id,
        },
        filters={
            "shown_since": _k.ended_at.is_(None) | (_k.ended_at > bindparam("shown_since")),
            "users": one_of(users.c.username, "users"),
            "user_ids": one_of(_j.user_id, "user_ids"),
            "workspace_id": _j.workspace_id == bindparam("workspace_id"),
            "in_workspaces": one_of(_j.workspace_id, "in_workspaces"),
        },
    )


_LISTED = {kind: _collection(kind) for kind in NAMES}


@dataclass(frozen=True, slots=True)
class InteractiveTask:
    """A task as the API shows it, and fields that only some callers may see."""

    shown: dict[str, Any]
    config: dict[str, Any]
    sealed: str | None
    job_id: UUID
    user_id: int
    workspace_id: int
    pool: str
    access_key: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewTask:
    id: str
    kind: TaskKind
    job_id: UUID
    config: Mapping[str, Any]
    sealed: str
    experiment_id: int | None = None
    context_id: UUID | None = None
    proxies: Sequence[Mapping[str, Any]] = ()
    access_key: str | None = None
    idle_timeout_s: float | None = None
    idempotency_key: str | None = None


def insert_task(tx: Tx, new: NewTask, now: datetime) -> None:
    values = {name: getattr(new, name) for name in NewTask.__slots__}
    tx.execute(insert(tasks).values(started_at=now, **values))


def by_idempotency_key(db: Database, key: str) -> str | None:
    """Return the task that an earlier try of the same request launched."""
    rows = db.read(select(_k.id).where(_k.idempotency_key == key))
    return rows[0].id if rows else None


def listed(
    db: Database, kind: TaskKind, page: Page, sort: Sort, filters: dict[str, Any]
) -> Iterator[str]:
    return pages.find(db, _LISTED[kind], page, sort, filters)


def one(tx: Tx, kind: TaskKind, task_id: str) -> InteractiveTask | None:
    query = _LISTED[kind].rows.add_columns(
        _k.config, _k.sealed, _k.job_id, _j.user_id, _j.workspace_id, _j.pool, _k.access_key, _k.ended_at
    )  # fmt: skip
    row = tx.execute(query.where(_k.id == task_id)).first()
    return None if row is None else InteractiveTask(*row)


_SET_RESOURCE = text("""
    UPDATE tasks SET config = jsonb_set(config, ARRAY['resources', cast(:name AS text)], to_jsonb(cast(:value AS integer)))
    WHERE id = :task_id
""")


def set_resource(tx: Tx, task_id: str, name: str, value: int) -> None:
    """Change one of the resources in the stored configuration."""
    tx.execute(_SET_RESOURCE, {"task_id": task_id, "name": name, "value": value})


_RUNNING = text("""
    SELECT k.kind::text AS kind, count(*) AS number FROM tasks k JOIN jobs j ON j.id = k.job_id
    WHERE k.trial_id IS NULL AND k.ended_at IS NULL
      AND (cast(:within AS integer[]) IS NULL OR j.workspace_id = ANY(:within)) GROUP BY k.kind
""")


def running(db: Database, within: Sequence[int] | None) -> dict[TaskKind, int]:
    """Return how many tasks of each kind have not ended."""
    params = {"within": None if within is None else list(within)}
    return {TaskKind(row.kind): int(row.number) for row in db.read(_RUNNING, params)}


@dataclass(frozen=True, slots=True)
class LiveTask:
    id: str
    kind: TaskKind
    name: str
    no_pause: bool


_LIVE_OF = text("""
    SELECT k.id, k.kind::text AS kind, j.name, k.no_pause FROM tasks k JOIN jobs j ON j.id = k.job_id
    WHERE j.user_id = :user_id AND k.trial_id IS NULL AND k.kind <> 'CHECKPOINT_GC' AND k.ended_at IS NULL
      AND coalesce(k.state, 'ACTIVE') NOT IN ('PAUSED', 'STOPPING_PAUSED') ORDER BY k.started_at, k.id
""")


def live_of(db: Database, user_id: int) -> list[LiveTask]:
    """Return the tasks of a user that run or wait to run, besides trials and deletions."""
    rows = db.read(_LIVE_OF, {"user_id": user_id})
    return [LiveTask(row.id, TaskKind(row.kind), row.name, row.no_pause) for row in rows]


@dataclass(frozen=True, slots=True)
class EndingTask:
    kind: TaskKind
    told: str  # why its last allocation was to stop


_ENDING = text("""
    SELECT k.kind::text AS kind, coalesce(a.preempt_reason, '') AS told
    FROM allocations a JOIN tasks k ON k.id = a.task_id WHERE a.id = :allocation_id
""")
_END = text("""
    UPDATE tasks SET ended_at = :now, exit_status = :exit_status, outcome = :outcome
    WHERE id = :task_id AND ended_at IS NULL
""")


def ending(tx: Tx, allocation_id: str) -> EndingTask:
    row = tx.execute(_ENDING, {"allocation_id": allocation_id}).one()
    return EndingTask(TaskKind(row.kind), row.told)


def end(tx: Tx, task_id: str, exit_status: str, outcome: GenericTaskState, now: datetime) -> None:
    params = {"task_id": task_id, "exit_status": exit_status, "outcome": outcome.value, "now": now}
    tx.execute(_END, params)


_PORTS = text("""
    SELECT DISTINCT (p.value->>'port')::integer AS port FROM tasks k, jsonb_array_elements(k.proxies) p
    WHERE k.trial_id IS NULL AND k.ended_at IS NULL AND k.kind <> 'CHECKPOINT_GC'
""")


def ports_in_use(tx: Tx) -> set[int]:
    """Return the ports on which live tasks serve: several tasks may share a machine, and its network."""
    return set(tx.execute(_PORTS).scalars())


_ACTIVE = text("UPDATE tasks SET active_at = :now WHERE id = :task_id AND ended_at IS NULL")
_SET_LOGIN = text("""
    UPDATE tasks SET config = jsonb_set(config, '{_shell,user}', to_jsonb(cast(:login AS text))) WHERE id = :task_id AND kind = 'SHELL'
""")
_RESUME = text("UPDATE allocations SET state = 'RUNNING' WHERE id = :id AND state = 'WAITING'")
# From when on a task is idle: its last traffic, its last work, or when it became ready.
_IDLE_SINCE = "greatest(k.active_at, k.proxied_at)"
_IDLING = """FROM tasks k JOIN allocations a ON a.task_id = k.id AND a.state <> 'TERMINATED'
    WHERE k.idle_timeout_s IS NOT NULL AND k.ended_at IS NULL AND a.ready AND NOT a.killed AND k.active_at IS NOT NULL"""
_DUE = f"{_IDLE_SINCE} + make_interval(secs => k.idle_timeout_s)"
_IDLE = text(f"SELECT a.id, k.idle_timeout_s {_IDLING} AND {_DUE} <= :now ORDER BY a.id")
_NEXT_IDLE = text(f"SELECT min({_DUE}) {_IDLING}")


def note_activity(tx: Tx, task_id: str, now: datetime) -> None:
    """Restart the idle time of a task."""
    tx.execute(_ACTIVE, {"task_id": task_id, "now": now})


def set_login(tx: Tx, task_id: str, login: str) -> None:
    """Keep the account that a shell lets in; other tasks have none."""
    tx.execute(_SET_LOGIN, {"task_id": task_id, "login": login})


def resume(tx: Tx, allocation_id: str) -> None:
    """Let an allocation that waited run."""
    tx.execute(_RESUME, {"id": allocation_id})


@dataclass(frozen=True, slots=True)
class IdleTask:
    allocation_id: str
    timeout_s: float


def idle(tx: Tx, now: datetime) -> list[IdleTask]:
    """Return tasks that were idle for as long as they may be."""
    return [IdleTask(*row) for row in tx.execute(_IDLE, {"now": now})]


def next_idle(tx: Tx) -> datetime | None:
    """Return the time at which the next task will have been idle for too long."""
    return tx.execute(_NEXT_IDLE).scalar()
