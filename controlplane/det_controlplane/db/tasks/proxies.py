"""Ports of tasks that are reached through `/proxy/`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.db.engine.database import Database

# The first container of the newest allocation is the one that is spoken to.
_OF_TASK = text("""
    SELECT k.id AS task_id, k.kind::text AS kind, k.proxies, c.id::text AS container_id, c.agent_id, c.state::text AS state,
        k.access_key, u.id AS owner_id, u.username AS owner, u.active AS owner_is_active
    FROM tasks k JOIN jobs j ON j.id = k.job_id JOIN users u ON u.id = j.user_id
    LEFT JOIN LATERAL (SELECT id, epoch FROM allocations WHERE task_id = k.id ORDER BY run_id DESC LIMIT 1) a ON true
    LEFT JOIN containers c ON c.allocation_id = a.id AND c.epoch = a.epoch AND c.rank = 0
    WHERE k.id = :task_id AND k.ended_at IS NULL
""")
_ENDED = text("""
    SELECT k.exit_status, k.proxies, k.access_key, j.user_id AS owner_id FROM tasks k JOIN jobs j ON j.id = k.job_id
    WHERE k.id = :task_id AND k.exit_status <> ''
""")
_ANY_WANTED = text("""
    SELECT EXISTS (SELECT FROM allocations a JOIN tasks k ON k.id = a.task_id
        WHERE a.state <> 'TERMINATED' AND k.ended_at IS NULL AND jsonb_array_length(k.proxies) > 0)
""")
# Skip tasks that another transaction ends or changes, so that this statement never waits while it holds a task.
_TOUCH = text("""
    UPDATE tasks SET proxied_at = :now WHERE id IN (
        SELECT id FROM tasks WHERE id = ANY(cast(:task_ids AS text[])) AND ended_at IS NULL FOR NO KEY UPDATE SKIP LOCKED)
""")
_MISS = text("UPDATE agents SET relay_dials = relay_dials + 1 WHERE id = :agent_id")


@dataclass(frozen=True, slots=True)
class ProxiedTask:
    task_id: str
    kind: str
    proxies: list[dict[str, Any]]
    container_id: str | None
    agent_id: str | None
    state: ContainerState | None
    access_key: str | None
    owner_id: int
    owner: str
    owner_is_active: bool


def of_task(db: Database, task_id: str) -> ProxiedTask | None:
    """Return a task that has not ended, with its ports and the container that has them."""
    for row in db.read(_OF_TASK, {"task_id": task_id}):
        state = ContainerState(row.state) if row.state else None
        return ProxiedTask(**{**row._mapping, "state": state})
    return None


@dataclass(frozen=True, slots=True)
class EndedTask:
    """The end of a task other than a trial, and the users that may see it."""

    exit_status: str
    proxies: list[dict[str, Any]]
    access_key: str | None
    owner_id: int


def ended(db: Database, task_id: str) -> EndedTask | None:
    """Return how a task ended; None for one that has not, or is a trial's."""
    for row in db.read(_ENDED, {"task_id": task_id}):
        return EndedTask(**row._mapping)
    return None


def is_relay_needed(db: Database) -> bool:
    """Return whether a task with ports runs, or waits to."""
    return any(row[0] for row in db.read(_ANY_WANTED, {}))


def touch(db: Database, task_ids: Sequence[str], now: datetime) -> None:
    """Store when traffic went to some tasks."""
    with db.autocommit() as tx:
        tx.execute(_TOUCH, {"task_ids": list(task_ids), "now": now})


def of_config(task_id: str) -> str:
    """Return the SQL that makes `tasks.proxies` of a trial from `environment.proxy_ports` of its experiment `e`.

    The port with the default service id comes first and has the task's id; the others have `<task>:<port>`."""
    return f"""(SELECT coalesce(jsonb_agg(jsonb_build_object('port', (p.value->>'proxy_port')::integer,
            'tcp', coalesce((p.value->>'proxy_tcp')::boolean, false),
            'unauthenticated', coalesce((p.value->>'unauthenticated')::boolean, false),
            'id', CASE WHEN (p.value->>'default_service_id')::boolean THEN {task_id}
                  ELSE concat({task_id}, ':', p.value->>'proxy_port') END)
            ORDER BY coalesce((p.value->>'default_service_id')::boolean, false) DESC, p.ordinality), '[]')
        FROM jsonb_array_elements(coalesce(nullif((e.config#>'{{environment,proxy_ports}}')::jsonb, 'null'), '[]')) WITH ORDINALITY p)"""


def miss(db: Database, agent_id: str) -> None:
    """Store that the relay has no connection of an agent. The answer to its next poll asks it to connect again."""
    with db.autocommit() as tx:
        tx.execute(_MISS, {"agent_id": agent_id})
