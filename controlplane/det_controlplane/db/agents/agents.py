"""Rows of agents, and the containers that they should run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Boolean,
    Interval,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    text,
    update,
)

from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Database, Tx, as_json

_agents = schema.agents.c
# An advisory lock, because a row that does not exist yet cannot be locked. It is a separate statement, so that the next
# statement sees the row that the previous holder of the lock committed.
_LOCK_ID = text("SELECT pg_advisory_xact_lock(hashtextextended('agent:' || :id, 0))")
_HOLDER = (
    select(*_agents["agent_key_hash", "lease_until", "state", "last_seen_at"])
    .where(_agents.id == bindparam("id"))
    .with_for_update()
)
_SET_AGENT = (
    update(schema.agents)
    .where(_agents.id == bindparam("agent"), _agents.state != AgentState.LOST)
    .values(
        enabled=bindparam("enabled"),
        draining=bindparam("draining"),
        # Back in service, an agent stays in its pool.
        moves_to=case(
            (bindparam("enabled", type_=Boolean()) & ~bindparam("draining", type_=Boolean()), None),
            else_=_agents.moves_to,
        ),
    )
    .returning(_agents.pool)
)
_SET_SLOT = (
    update(schema.slots)
    .where(
        _agents.id == schema.slots.c.agent_id,
        _agents.id == bindparam("agent"),
        schema.slots.c.slot_id == bindparam("slot"),
    )
    .values(enabled=bindparam("enabled"), draining=bindparam("draining"))
    .returning(_agents.pool)
)
_UPSERT = text("""
    INSERT INTO agents (id, pool, state, agent_key_hash, incarnation, token_hash, version, product_version, hostname, runtime, addresses,
        links, out_of_service, joined_at, last_seen_at, lease_until, lost_after)
    VALUES (:id, :pool, 'JOINED', :key_hash, :incarnation, :token_hash, :version, :product_version, :hostname, :runtime,
        cast(:addresses AS text[]), cast(:links AS jsonb), :out_of_service, :now, :now, :lease_until, :lost_after)
    ON CONFLICT (id) DO UPDATE SET pool = excluded.pool, state = 'JOINED', agent_key_hash = excluded.agent_key_hash,
        incarnation = excluded.incarnation, token_hash = excluded.token_hash, version = excluded.version,
        product_version = excluded.product_version,
        hostname = excluded.hostname, runtime = excluded.runtime, addresses = excluded.addresses, links = excluded.links, out_of_service = excluded.out_of_service,
        poll_seq = 0, leaving = false, joined_at = excluded.joined_at, last_seen_at = excluded.last_seen_at, lease_until = excluded.lease_until,
        lost_after = excluded.lost_after
""")
_DROP_SLOTS = text("""
    DELETE FROM slots WHERE agent_id = :id AND container_id IS NULL AND NOT slot_id = ANY(cast(:kept AS integer[]))
""")
_UPSERT_SLOTS = text("""
    INSERT INTO slots (agent_id, slot_id, device_type, device_uuid, device_brand, numa_node)
    SELECT :id, x.id, x.type, coalesce(x.uuid, ''), coalesce(x.brand, ''), x.numa_node
    FROM jsonb_to_recordset(cast(:slots AS jsonb)) AS x (id integer, type device_type, uuid text, brand text,
        numa_node integer)
    ON CONFLICT (agent_id, slot_id) DO UPDATE SET device_type = excluded.device_type,
        device_uuid = excluded.device_uuid, device_brand = excluded.device_brand, numa_node = excluded.numa_node
""")
_LIVE = """FROM containers c JOIN allocations a ON a.id = c.allocation_id JOIN tasks k ON k.id = a.task_id
    WHERE c.agent_id = {agent_id} AND c.state <> 'TERMINATED'"""
# An agent that comes or goes changes the pool's capacity, so the same statement marks the pool for a pass.
_TOUCH = text(f"""
    WITH touched AS (
        UPDATE agents a SET last_seen_at = greatest(a.last_seen_at, :arrived_at),
            lease_until = CASE WHEN old.is_new_poll THEN :lease_until ELSE a.lease_until END,
            state = CASE WHEN old.is_new_poll THEN 'JOINED' ELSE a.state END,
            lost_after = CASE WHEN old.is_new_poll THEN cast(:lease_until AS timestamptz) + make_interval(secs =>
                coalesce((cast(:waits AS jsonb)->>a.pool)::double precision, :default_wait)) ELSE a.lost_after END,
            poll_seq = greatest(a.poll_seq, :seq), leaving = a.leaving OR :leaving,
            out_of_service = :out_of_service, unsent_at = CASE WHEN :unsent THEN :now ELSE a.unsent_at END
        FROM (SELECT id, leaving, state, out_of_service, last_seen_at < :arrived_at AS is_new_poll
              FROM agents WHERE token_hash = :token_hash FOR UPDATE) old
        WHERE a.id = old.id AND a.incarnation = cast(:incarnation AS uuid) AND a.state <> 'LOST'
        RETURNING a.draining, a.poll_seq <= :seq AS newest, a.leaving AND NOT old.leaving AS leaves_now,
            a.leaving, old.state <> a.state OR old.out_of_service <> a.out_of_service AS returned, a.pool, a.id,
            a.relay_dials, a.moves_to IS NOT NULL AS moves),
    marked AS (
        INSERT INTO pools (name) SELECT pool FROM touched WHERE returned OR leaves_now
        ON CONFLICT (name) DO UPDATE SET marked = pools.marked + 1)
    SELECT id AS agent_id, draining, newest, leaves_now, leaving, returned, relay_dials, moves,
        (SELECT pools_revision FROM cluster) AS pools, (
        SELECT json_agg(json_build_array(c.id, c.allocation_id, c.epoch, c.state, a.killed, a.preempt_at IS NOT NULL,
                                         k.proxies <> '[]', extract(epoch FROM a.kill_at))
                        ORDER BY c.assigned_at, c.id) {_LIVE.format(agent_id="touched.id")}) AS assigned
    FROM touched
""")
_ASSIGNED = text(f"""
    SELECT c.id::text AS id, c.allocation_id, c.epoch, c.state::text AS state, a.killed,
           (a.preempt_at IS NOT NULL) AS preempt, k.proxies <> '[]' AS proxied,
           extract(epoch FROM a.kill_at)::double precision AS kill_at
    {_LIVE.format(agent_id=":id")} ORDER BY c.assigned_at, c.id
""")
_OVERDUE = (
    select(*_agents["id", "pool", "state", "lease_until", "lost_after"])
    .where(
        or_(
            (_agents.state == literal_column("'JOINED'"))
            & (_agents.lease_until <= bindparam("now")),
            (_agents.state == literal_column("'SUSPECT'"))
            & (_agents.lost_after <= bindparam("now")),
        )
    )
    .order_by(_agents.id)
    .with_for_update(key_share=True)
)
_SET_OVERDUE = (
    update(schema.agents)
    .where(_agents.id == bindparam("agent"))
    .values(state=bindparam("state_now"), lost_after=bindparam("deadline"))
)
_STORE_DATA_CACHE = text("""
    INSERT INTO data_caches (agent_id, size_bytes, used_bytes, sets) VALUES (:agent, :size, :used, cast(:sets AS jsonb))
    ON CONFLICT (agent_id) DO UPDATE SET size_bytes = excluded.size_bytes, used_bytes = excluded.used_bytes, sets = excluded.sets
""")
_SUSPECT_IF_SILENT = (
    update(schema.agents)
    .where(_agents.id == bindparam("agent"), _agents.last_seen_at < bindparam("since"))
    .values(
        state=case(
            (_agents.state == AgentState.JOINED, literal_column("'SUSPECT'::agent_state")),
            else_=_agents.state,
        ),
        lease_until=func.least(
            _agents.lease_until, bindparam("now", type_=_agents.lease_until.type)
        ),
    )
    .returning(*_agents["id", "pool", "state", "lease_until", "lost_after"])
)
_IS_LOST = (
    select(_agents.state == AgentState.LOST)
    .where(_agents.id == bindparam("agent"))
    .with_for_update(read=True)
)
_allocations = schema.allocations.c
_ON_LOST_AGENT = (
    schema.containers.c.state != literal_column("'TERMINATED'"),
    _agents.state == AgentState.LOST,
)
_ABANDONED = (
    select(schema.containers.c.agent_id, schema.containers.c.id)
    .join_from(schema.containers, schema.agents, schema.containers.c.agent_id == _agents.id)
    .join(schema.allocations)
    .where(
        *_ON_LOST_AGENT,
        or_(
            _allocations.killed,
            _allocations.awaited_until.is_(None),
            _allocations.awaited_until <= bindparam("now"),
        ),
    )
    .order_by(schema.containers.c.agent_id, schema.containers.c.id)
)
# When a wait for agents that have not joined again ends. A run that is killed meanwhile waits no longer.
_NEXT_AWAITED = (
    select(
        func.min(
            case(
                (_allocations.killed, bindparam("look_at", type_=_agents.lost_after.type)),
                else_=_allocations.awaited_until,
            )
        )
    )
    .join_from(schema.containers, schema.agents, schema.containers.c.agent_id == _agents.id)
    .join(schema.allocations)
    .where(*_ON_LOST_AGENT)
    .scalar_subquery()
)
_NEXT_SILENCE = func.min(
    case(
        (
            (_agents.state == AgentState.JOINED)
            & (_agents.lease_until > bindparam("look_at", type_=_agents.lost_after.type)),
            func.least(
                _agents.lease_until - bindparam("watch", type_=Interval()),
                bindparam("attend_at", type_=_agents.lost_after.type),
            ),
        ),
        (_agents.state == AgentState.JOINED, _agents.lease_until),
        else_=func.least(_agents.lost_after, bindparam("look_at", type_=_agents.lost_after.type)),
    )
)
_NEXT_DUE = select(func.least(_NEXT_SILENCE, _NEXT_AWAITED)).where(_agents.state != AgentState.LOST)


@dataclass(frozen=True, slots=True)
class AssignedContainer:
    """A container the agent should have."""

    id: str
    allocation_id: str
    epoch: int
    state: str
    killed: bool
    preempt: bool
    proxied: bool  # its task has ports that are reached through the relay
    kill_at: float | None  # Unix time


@dataclass(frozen=True, slots=True)
class Holder:
    agent_key_hash: bytes
    lease_until: datetime
    state: AgentState
    last_seen_at: datetime


def holder(tx: Tx, agent_id: str) -> Holder | None:
    """Return the holder of an agent's id, new or not, and keep other transactions from taking it."""
    tx.execute(_LOCK_ID, {"id": agent_id})
    row = tx.execute(_HOLDER, {"id": agent_id}).first()
    return None if row is None else Holder(*row)


def upsert(tx: Tx, agent: dict[str, Any], slots: list[dict[str, Any]]) -> None:
    tx.execute(_UPSERT, agent)
    tx.execute(_DROP_SLOTS, {"id": agent["id"], "kept": [s["id"] for s in slots]})
    tx.execute(_UPSERT_SLOTS, {"id": agent["id"], "slots": as_json(slots)})


def put_in_service(
    tx: Tx, agent_id: str, slot_id: int | None, *, enabled: bool, draining: bool
) -> str | None:
    """Take an agent, or one of its slots, into service or out of it; returns the agent's pool."""
    params = {"agent": agent_id, "slot": slot_id, "enabled": enabled, "draining": draining}
    return tx.execute(_SET_AGENT if slot_id is None else _SET_SLOT, params).scalar()


@dataclass(frozen=True, slots=True)
class PollRecord:
    agent_id: str
    draining: bool
    newest: bool  # no later poll of this process was seen
    leaves_now: bool  # this poll is the first to say that the machine goes away
    leaving: bool
    returned: bool  # it had been suspect, or out of service, or it is now
    relay_dials: int  # how often the relay missed it
    pools: int  # the count of changes of pools in the database
    moves: bool  # to another pool, after its work
    assigned: list[AssignedContainer]


def touch(
    db: Database,
    token_hash: bytes,
    incarnation: str,
    *,
    seq: int,
    leaving: bool,
    out_of_service: str,
    unsent: bool,
    now: datetime,
    arrived_at: datetime,
    lease_until: datetime,
    waits: Mapping[str, float],
    default_wait: float,
) -> PollRecord | None:
    """Extend the lease and read the assigned containers; None when this incarnation was replaced. A transaction of its own.

    A held poll is handled several times. Only the first time extends the lease, because the agent may be gone since.
    After its lease, an agent is waited for as many seconds as its pool says."""
    params = {
        "token_hash": token_hash, "incarnation": incarnation, "seq": seq, "leaving": leaving,
        "out_of_service": out_of_service, "unsent": unsent,
        "now": now, "arrived_at": arrived_at, "lease_until": lease_until, "waits": as_json(waits), "default_wait": default_wait,
    }  # fmt: skip
    with db.autocommit() as tx:
        result = tx.execute(_TOUCH, params).first()
    if result is None:
        return None
    row = result._asdict()
    return PollRecord(**{**row, "assigned": [AssignedContainer(*d) for d in row["assigned"] or ()]})


def assigned_containers(db: Database, agent_id: str) -> list[AssignedContainer]:
    return [AssignedContainer(**r._mapping) for r in db.read(_ASSIGNED, {"id": agent_id})]


@dataclass(frozen=True, slots=True)
class OverdueAgent:
    id: str
    pool: str
    state: AgentState
    lease_until: datetime
    lost_after: datetime


def lock_overdue(tx: Tx, now: datetime) -> list[OverdueAgent]:
    """Lock and return joined agents after the end of their lease, and suspect agents after the end of their wait."""
    return [OverdueAgent(*row) for row in tx.execute(_OVERDUE, {"now": now})]


def set_overdue(tx: Tx, agent_id: str, state: AgentState, lost_after: datetime) -> None:
    params = {"agent": agent_id, "state_now": state, "deadline": lost_after}
    tx.execute(_SET_OVERDUE, params)


def store_data_cache(
    tx: Tx, agent_id: str, size: int, used: int, sets: list[dict[str, Any]]
) -> None:
    """Store the data sets in an agent's cache."""
    params = {"agent": agent_id, "size": size, "used": used, "sets": as_json(sets)}
    tx.execute(_STORE_DATA_CACHE, params)


def is_lost(tx: Tx, agent_id: str) -> bool:
    """Return whether an agent is lost, and keep it so until the transaction ends."""
    return bool(tx.execute(_IS_LOST, {"agent": agent_id}).scalar())


def suspect_if_silent(tx: Tx, agent_id: str, since: datetime, now: datetime) -> OverdueAgent | None:
    """Lock an agent that has not polled since a time, and end its lease. Return it, or None if it has polled."""
    params = {"agent": agent_id, "since": since, "now": now}
    row = tx.execute(_SUSPECT_IF_SILENT, params).first()
    return None if row is None else OverdueAgent(*row)


def give_up(tx: Tx, agent_id: str, now: datetime) -> str | None:
    """Declare an agent lost that is gone for good; the tick ends its containers. Return its pool, unless it was lost before."""
    row = update(schema.agents).where(_agents.id == agent_id, _agents.state != AgentState.LOST)
    lost = row.values(state=AgentState.LOST, lease_until=now, lost_after=now)
    return tx.execute(lost.returning(_agents.pool)).scalar()


def abandoned_containers(tx: Tx, now: datetime) -> dict[str, list[UUID]]:
    """Return containers of lost agents that have not been ended and that no run waits for, by agent."""
    containers: dict[str, list[UUID]] = {}
    for row in tx.execute(_ABANDONED, {"now": now}).all():
        containers.setdefault(row.agent_id, []).append(row.id)
    return containers


def next_due(tx: Tx, now: datetime, watch: timedelta, attention: timedelta) -> datetime | None:
    """Return when a tick is due next: `watch` before a lease ends, at its end, and at the end of a wait for an agent.

    While an agent is suspect, a tick is due after `watch` at the latest, and while one is joined after `attention`."""
    params = {"look_at": now + watch, "watch": watch, "attend_at": now + attention}
    return tx.execute(_NEXT_DUE, params).scalar()
