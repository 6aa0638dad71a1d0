"""The snapshot of a pool that a scheduling decision looks at, and the guarded writes that apply it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.core import schedule
from det_controlplane.core.schedule import Agent, Job, Placement, Request, Running
from det_controlplane.core.schedule.model import NO_BLOCKED_AGENTS
from det_controlplane.db.engine import Tx, as_json

_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(hashtextextended('pool:' || :pool, 0))")
_AGENTS = text("""
    SELECT a.id, a.enabled AND NOT a.leaving AS enabled, a.draining, a.out_of_service, a.state::text AS state,
           coalesce(array_agg(s.slot_id ORDER BY s.slot_id) FILTER (WHERE s.enabled AND NOT s.draining
                    AND s.container_id IS NULL), '{}') AS free,
           count(*) FILTER (WHERE s.enabled AND NOT s.draining) AS slots,
           count(*) FILTER (WHERE s.enabled AND NOT s.draining AND s.container_id IS NOT NULL) AS used,
           (SELECT count(*) FROM containers c WHERE c.agent_id = a.id AND c.state <> 'TERMINATED'
            AND cardinality(c.slot_ids) = 0) AS aux_used,
           coalesce((SELECT i.provider || ' ' || i.region FROM instances i WHERE i.agent_id = a.id
                     AND i.state NOT IN ('GONE', 'FAILED') LIMIT 1), '') AS place
    FROM agents a LEFT JOIN slots s ON s.agent_id = a.id
    WHERE a.pool = :pool AND a.state = 'JOINED' GROUP BY a.id ORDER BY a.id
""")
# In the order of the queue: the decision sorts what is sorted already. Thousands may wait: what is cheap to read here
# are texts, numbers and NULLs.
_PENDING = text("""
    SELECT a.id, a.job_id::text AS job_id, a.slots, date_part('epoch', a.requested_at) AS requested_at, a.single_agent,
           a.preemptible, nullif(t.blocked_agents, '{}') AS blocked_agents, a.wait_code, a.wait_reason
    FROM allocations a JOIN jobs j ON j.id = a.job_id LEFT JOIN trials t ON t.id = a.trial_id
    WHERE a.pool = :pool AND a.state = 'QUEUED' AND a.not_before IS NULL
    ORDER BY coalesce(j.priority, :default_priority), j.position, j.id, a.requested_at, a.id
""")
_RUNNING = text("""
    SELECT a.id, a.job_id::text AS job_id, a.slots, date_part('epoch', a.requested_at) AS requested_at, a.preemptible,
           (a.killed OR a.preempt_at IS NOT NULL) AS releasing,
           array_agg(c.agent_id ORDER BY c.rank) AS agents,
           array_agg((SELECT count(*) FROM slots s WHERE s.container_id = c.id AND s.enabled AND NOT s.draining)
                     ORDER BY c.rank) AS held
    FROM allocations a JOIN containers c ON c.allocation_id = a.id AND c.epoch = a.epoch AND c.state <> 'TERMINATED'
    WHERE a.pool = :pool AND a.state NOT IN ('QUEUED', 'TERMINATED') GROUP BY a.id ORDER BY a.requested_at, a.id
""")
_JOBS = text("""
    SELECT j.id::text AS id, coalesce(j.priority, :default_priority) AS priority, j.weight,
           trim_scale(j.position)::text AS position, j.max_slots, date_part('epoch', j.submitted_at) AS submitted_at
    FROM jobs j WHERE j.id = ANY(cast(:ids AS uuid[]))
""")
# A pass changes allocations of many experiments, whose reports lock them in orders of their own: it waits for none.
_ASSIGN = text("""
    WITH x AS (
        SELECT s.* FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS s (id text, backfilled boolean, ports jsonb)
        JOIN allocations f ON f.id = s.id WHERE f.state = 'QUEUED' FOR UPDATE OF f SKIP LOCKED)
    UPDATE allocations a SET state = 'ASSIGNED', epoch = epoch + 1, assigned_at = :now, backfilled = x.backfilled,
        ports = x.ports, wait_code = NULL, wait_reason = NULL, wait_since = NULL
    FROM x WHERE a.id = x.id RETURNING a.id, a.epoch, a.task_id
""")
_INSERT_CONTAINERS = text("""
    INSERT INTO containers (id, allocation_id, agent_id, epoch, rank, slot_ids, state, assigned_at)
    SELECT x.id, x.allocation_id, x.agent_id, x.epoch, x.rank, x.slot_ids, 'ASSIGNED', :now
    FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (id uuid, allocation_id text, agent_id text, epoch integer,
         rank integer, slot_ids integer[])
""")
_WAITING = text("""
    WITH x AS (
        SELECT s.* FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS s (id text, code wait_code, reason text)
        JOIN allocations f ON f.id = s.id WHERE f.state = 'QUEUED' FOR UPDATE OF f SKIP LOCKED)
    UPDATE allocations a SET wait_code = x.code, wait_reason = x.reason, wait_since = coalesce(a.wait_since, :now)
    FROM x WHERE a.id = x.id
""")
_PORTS = text(
    "SELECT ports FROM allocations WHERE state NOT IN ('QUEUED', 'TERMINATED') AND ports <> '{}'"
)
_PORTS_ON = text("""
    SELECT c.agent_id, a.ports FROM containers c JOIN allocations a ON a.id = c.allocation_id
    WHERE c.agent_id = ANY(cast(:agents AS text[])) AND c.state <> 'TERMINATED' AND a.ports <> '{}'
""")


@dataclass(slots=True)
class PoolRows:
    """The rows of a pool that a scheduling decision needs, and its free slots."""

    agents: tuple[Agent, ...]
    pending: tuple[Request, ...]
    running: tuple[Running, ...]
    free: dict[str, list[int]] = field(default_factory=dict)
    reasons: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)


def try_lock(tx: Tx, pool: str) -> bool:
    """Lock the pool for a pass, if no other pass has it."""
    return bool(tx.execute(_TRY_LOCK, {"pool": pool}).scalar())


def load(tx: Tx, pool: str, aux_limit: int, default_priority: int) -> PoolRows:
    params = {"pool": pool}
    agent_rows = tx.execute(_AGENTS, params).all()
    pending_rows = tx.execute(_PENDING, {**params, "default_priority": default_priority}).all()
    running_rows = tx.execute(_RUNNING, params).all()
    # Each statement sees the world a moment later: the jobs are those of what was found, not of what lives now.
    jobs = _jobs(tx, {r.job_id for r in (*pending_rows, *running_rows)}, default_priority)
    return PoolRows(
        agents=tuple(
            Agent(
                r.id, r.slots, r.used, aux_limit, r.aux_used, r.enabled, r.draining, r.out_of_service, r.place
            )
            for r in agent_rows
        ),
        pending=tuple(
            Request(
                r.id, jobs[r.job_id], r.slots, r.requested_at, r.single_agent, r.preemptible,
                frozenset(r.blocked_agents) if r.blocked_agents else NO_BLOCKED_AGENTS,
            )
            for r in pending_rows
        ),
        running=tuple(_running(r, jobs[r.job_id]) for r in running_rows),
        free={r.id: list(r.free) for r in agent_rows},
        reasons={r.id: (r.wait_code, r.wait_reason) for r in pending_rows},
    )  # fmt: skip


def _jobs(tx: Tx, ids: set[str], default_priority: int) -> dict[str, Job]:
    params = {"ids": f"{{{','.join(sorted(ids))}}}", "default_priority": default_priority}
    return {
        r.id: Job(r.priority, _position(r.position), r.id, r.weight, r.max_slots, r.submitted_at)
        for r in tx.execute(_JOBS, params).all()
    }


def _position(written: str) -> Decimal | int:
    """Return whole numbers as such, as nearly all are: they compare several times faster."""
    return int(written) if written.isdigit() else Decimal(written)


def _running(r: Any, job: Job) -> Running:
    placements = tuple(Placement(a, n) for a, n in zip(r.agents, r.held, strict=True))
    return Running(
        r.id,
        job,
        r.slots,
        placements,
        r.preemptible,
        r.releasing,
        r.requested_at,
    )


@dataclass(frozen=True, slots=True)
class Assigned:
    epoch: int
    task_id: str


@dataclass(frozen=True, slots=True)
class NewContainer:
    id: UUID
    allocation_id: str
    agent_id: str
    epoch: int
    rank: int
    slot_ids: list[int]


def assign(
    tx: Tx, starts: Sequence[schedule.Start], ports: Sequence[dict[str, int]], now: datetime
) -> dict[str, Assigned]:
    """Give queued allocations their next epochs; one that no longer waits, or that another transaction has locked, is missing in the answer."""
    rows = [
        {"id": start.allocation_id, "backfilled": start.backfilled, "ports": own}
        for start, own in zip(starts, ports, strict=True)
    ]
    found = tx.execute(_ASSIGN, {"rows": as_json(rows), "now": now}).all()
    return {r.id: Assigned(r.epoch, r.task_id) for r in found}


def insert_containers(tx: Tx, containers: Sequence[NewContainer], now: datetime) -> None:
    tx.execute(_INSERT_CONTAINERS, {"rows": as_json([asdict(c) for c in containers]), "now": now})


def record_waiting(
    tx: Tx, rows: PoolRows, waiting: Mapping[str, schedule.WaitReason], now: datetime
) -> None:
    """Write the reasons that changed. What another transaction has locked is about to change anyway."""
    changed = [
        {"id": allocation_id, "code": reason.code.value, "reason": reason.sentence}
        for allocation_id, reason in waiting.items()
        if rows.reasons.get(allocation_id) != reason
    ]
    if changed:
        tx.execute(_WAITING, {"rows": as_json(changed), "now": now})


def ports_in_use(tx: Tx) -> set[int]:
    return {int(p) for r in tx.execute(_PORTS).all() for p in r[0].values()}


def ports_on(tx: Tx, agents: Collection[str]) -> dict[str, set[int]]:
    """Return the ports that allocations on these agents were told to use."""
    found: dict[str, set[int]] = {agent: set() for agent in agents}
    for r in tx.execute(_PORTS_ON, {"agents": list(agents)}).all():
        found[r.agent_id].update(map(int, r.ports.values()))
    return found
