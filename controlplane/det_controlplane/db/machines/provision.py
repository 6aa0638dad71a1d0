"""The snapshot of a pool for a decision about machines, and the decision's results other than rows of machines."""

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import func, select, text, update

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.placement.links import links_from, topology_of
from det_controlplane.core.provision.model import LEAST_URGENT, Demand, Machine, ProvisionReason
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.core.schedule import WaitCode
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.scheduling import schedule

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('provision', 0))")
_HELD = text("""
    SELECT job_id::text AS job_id, sum(slots) AS slots FROM allocations
    WHERE state NOT IN ('QUEUED', 'TERMINATED') AND job_id IS NOT NULL GROUP BY job_id
""")
_MACHINES_OF_AGENTS = text("""
    SELECT agent_id, id::text AS id FROM instances WHERE agent_id = ANY(cast(:agents AS text[]))
""")
_MACHINES = text("""
    SELECT i.*, g.leaving, g.state::text AS agent_state, coalesce(g.links, '[]') AS links,
           ARRAY(SELECT s.slot_id FROM slots s WHERE s.agent_id = i.agent_id AND s.container_id IS NULL AND s.enabled
                 AND NOT s.draining ORDER BY s.slot_id) AS free_slots,
           ARRAY(SELECT date_part('epoch', o.reported_at) FROM stragglers o WHERE o.agent_id = i.agent_id
                 AND NOT o.recovered ORDER BY o.id DESC LIMIT 100) AS slow_at,
           g.last_seen_at, g.unsent_at, k.answering_since,
           g.enabled AND NOT g.draining AND g.out_of_service = '' AS is_open,
           coalesce(g.state = 'JOINED' AND g.out_of_service <> '', false) AS is_broken,
           (SELECT count(*) FROM slots s WHERE s.agent_id = i.agent_id AND s.container_id IS NOT NULL) AS used_slots,
           (SELECT count(*) FROM containers c WHERE c.agent_id = i.agent_id AND c.state <> 'TERMINATED'
            AND cardinality(c.slot_ids) = 0) AS aux_used,
           (SELECT max(c.ended_at) FROM containers c WHERE c.agent_id = i.agent_id) AS last_end
    FROM cluster k CROSS JOIN instances i LEFT JOIN agents g ON g.id = i.agent_id
    WHERE i.pool = :pool AND i.state NOT IN ('GONE', 'FAILED') ORDER BY i.requested_at, i.id
""")
# A transaction that holds an experiment locks its allocations in any order. Skip locked ones instead of waiting.
_RECORD = text("""
    WITH x AS (
        SELECT s.* FROM jsonb_to_recordset(cast(:rows AS jsonb))
            AS s (id text, code provision_code, reason text, next_try double precision)
        JOIN allocations f ON f.id = s.id WHERE f.state = 'QUEUED'
            AND (f.machine_code IS DISTINCT FROM s.code OR f.machine_reason IS DISTINCT FROM s.reason)
        FOR NO KEY UPDATE OF f SKIP LOCKED)
    UPDATE allocations a SET machine_code = x.code, machine_reason = x.reason, machine_next_try = to_timestamp(x.next_try)
    FROM x WHERE a.id = x.id
""")


def lock(tx: Tx) -> None:
    """Wait for the lock of decisions about machines. The next decision sees the results of this one."""
    tx.execute(_LOCK)


class Waiting(NamedTuple):
    """A demand, with the digest of the stored reason why it has no machine."""

    demand: Demand
    machine_digest: str


def demand(tx: Tx, pool: str, default_priority: int) -> list[Waiting]:
    """Return the allocations that wait for slots in a pool, in the order of its queue."""
    queued = [
        one
        for one in schedule.queued(tx, pool, default_priority)
        if one.wait_code != WaitCode.WAITING_FOR_PREEMPTION.value
    ]
    slots_by_job = {row.job_id: row.slots for row in tx.execute(_HELD)} if queued else {}
    machines = _machines_of_agents(tx, {a for one in queued for a in one.request.blocked_agents})
    return [
        Waiting(
            Demand(
                request.allocation_id, request.job.id, request.slots, request.requested_at, request.single_agent,
                request.job.max_slots, slots_by_job.get(request.job.id, 0), request.job.priority,
                frozenset(m for agent in request.blocked_agents for m in machines.get(agent, ())),
                request.strict_topology,
                request.min_slots, request.capacity,
            ),
            digest,
        )
        for request, _, _, _, digest in queued
    ]  # fmt: skip


def growth(tx: Tx, pool: str, default_priority: int) -> tuple[Demand, ...]:
    """Return the demand for the slots that running elastic gangs lack."""
    gangs = schedule.growing(tx, pool, default_priority)
    return tuple(
        Demand(
            gang.allocation_id, gang.job.id, growth.max_slots - gang.slots, gang.requested_at,
            growth.single_agent, priority=LEAST_URGENT, min_slots=1,
        )
        for gang in gangs
        if (growth := gang.growth)
    )  # fmt: skip


def _machines_of_agents(tx: Tx, agents: Collection[str]) -> dict[str, list[str]]:
    machines: dict[str, list[str]] = {}
    if agents:
        for row in tx.execute(_MACHINES_OF_AGENTS, {"agents": list(agents)}):
            machines.setdefault(row.agent_id, []).append(row.id)
    return machines


def machines_of(tx: Tx, pool: str) -> tuple[Machine, ...]:
    return tuple(_machine(row) for row in tx.execute(_MACHINES, {"pool": pool}).all())


def _machine(r: Any) -> Machine:
    is_joined = r.agent_state == "JOINED"
    free = not r.used_slots and not r.aux_used
    idle_since = max(filter(None, (r.registered_at, r.last_end)), default=None) if free else None
    silent = not is_joined and r.last_seen_at is not None
    return Machine(
        id=str(r.id),
        pool=r.pool,
        offer=Offer(
            r.provider, r.region, r.zone, r.machine_type, Capacity(r.capacity), r.slots,
            r.price_usd_hour, r.section,
        ),
        state=MachineState(r.state),
        requested_at=r.requested_at.timestamp(),
        launched_at=_seconds(_heard_since(r.launched_at, r) if r.state == "LAUNCHED" else r.launched_at),
        registered_at=_seconds(r.registered_at),
        used_slots=r.used_slots,
        aux_used=r.aux_used,
        takes_work=bool(is_joined and r.is_open and not r.leaving),
        disconnected_since=_seconds(_heard_since(r.last_seen_at, r)) if silent else None,
        idle_since=_seconds(idle_since),
        unsent_at=_seconds(r.unsent_at),
        leaving_since=_seconds(r.last_seen_at) if r.leaving else None,
        is_broken=r.is_broken,
        stopped=r.stopped,
        purpose=r.purpose or "",
        trouble=(r.reason or "") if r.state == MachineState.REQUESTED.value else "",
        slow_at=tuple(r.slow_at),
        free_slots=tuple(r.free_slots),
        topology=topology_of(links_from(r.links)),
        placement=r.placement or "",
    )  # fmt: skip


def _heard_since(time: datetime | None, r: Any) -> datetime | None:
    """Return the time from which a machine's silence counts: while the control plane was interrupted none was heard."""
    return max(filter(None, (time, r.answering_since)), default=None) if time else None


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def record(tx: Tx, waiting: Mapping[str, ProvisionReason], stored: Mapping[str, str]) -> None:
    """Store why allocations have no machine yet; `stored` has the digests of the stored reasons.

    Locked allocations keep their reason: the change that holds them marks the pool, which starts another decision.
    """
    digests = {reason: _digest(reason) for reason in set(waiting.values())}
    rows = [
        {"id": id, "code": r.code.value, "reason": r.sentence, "next_try": r.next_try}
        for id, r in waiting.items()
        if stored.get(id) != digests[r]
    ]
    if rows:
        tx.execute(_RECORD, {"rows": as_json(rows)})


def _digest(reason: ProvisionReason) -> str:
    return hashlib.sha256(f"{reason.code.value} {reason.sentence}".encode()).hexdigest()


def set_next_decision(tx: Tx, pool: str, at: datetime | None) -> None:
    row = update(schema.pools).where(schema.pools.c.name == pool)
    tx.execute(row.values(provision_at=at))


def next_decision(tx: Tx, pools: Collection[str]) -> datetime | None:
    """Return when to decide on machines of some pools again; other pools have none, and are decided on no more."""
    times = select(func.min(schema.pools.c.provision_at)).where(schema.pools.c.name.in_(pools))
    return tx.execute(times).scalar() if pools else None
