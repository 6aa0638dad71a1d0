"""Agents with their slots and containers as the API shows them, and how full pools are."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.views import time

_CONTAINER = """json_build_object('id', c.id, 'parent', c.agent_id, 'permissionDenied', false,
    'state', 'STATE_' || c.state, 'devices', (SELECT coalesce(json_agg(json_build_object('id', d.slot_id,
        'brand', d.device_brand, 'uuid', d.device_uuid, 'type', 'TYPE_' || upper(d.device_type::text))
        ORDER BY d.slot_id), '[]'::json)
        FROM slots d WHERE d.container_id = c.id))"""
# Each slot shows its container with all slots of that. A container is put into JSON once.
_CONTAINERS = f"""WITH shown AS MATERIALIZED (
    SELECT c.id, c.agent_id, c.assigned_at, c.state, {_CONTAINER} AS container FROM containers c
    WHERE c.state <> 'TERMINATED' {{of_agent}})"""
_IN_SERVICE = "(a.enabled AND NOT a.draining AND a.state = 'JOINED' AND a.out_of_service = '')"
_SLOT = f"""json_build_object('id', s.slot_id::text, 'enabled', {_IN_SERVICE} AND s.enabled AND NOT s.draining, 'draining', a.draining OR s.draining,
    'device', json_build_object('id', s.slot_id, 'brand', s.device_brand, 'uuid', s.device_uuid,
                                'type', 'TYPE_' || upper(s.device_type::text)),
    'container', c.container)"""
_AGENT = f"""json_build_object('id', a.id, 'version', a.version, 'productVersion', a.product_version, 'registeredTime', {time("a.joined_at")},
    'addresses', to_json(a.addresses), 'resourcePools', json_build_array(a.pool),
    'enabled', {_IN_SERVICE}, 'draining', a.draining,
    'outOfService', a.out_of_service,
    'slots', (SELECT coalesce(json_object_agg(s.slot_id::text, {_SLOT} ORDER BY s.slot_id), '{{}}'::json)
              FROM slots s LEFT JOIN shown c ON c.id = s.container_id WHERE s.agent_id = a.id),
    'containers', (SELECT coalesce(json_object_agg(c.id, c.container ORDER BY c.assigned_at, c.id), '{{}}'::json) FROM shown c
                   WHERE c.agent_id = a.id),
    'slotStats', json_build_object('typeStats', '{{}}'::json, 'brandStats', '{{}}'::json))"""
_LIST = text(
    f"{_CONTAINERS.format(of_agent='')} SELECT coalesce(json_agg({_AGENT} ORDER BY a.id), '[]'::json) FROM agents a WHERE a.state <> 'LOST'"
)
_ONE = text(
    f"{_CONTAINERS.format(of_agent='AND c.agent_id = :id')} SELECT {_AGENT} FROM agents a WHERE a.id = :id AND a.state <> 'LOST'"
)
_POOL_STATS = text("""
    SELECT a.pool, count(DISTINCT a.id) AS agents, count(s.slot_id) AS slots,
           count(s.slot_id) FILTER (WHERE s.container_id IS NOT NULL) AS used,
           coalesce(min(s.device_type)::text, 'unspecified') AS device_type,
           (SELECT count(*) FROM containers c JOIN agents b ON b.id = c.agent_id
            WHERE b.pool = a.pool AND c.state <> 'TERMINATED' AND cardinality(c.slot_ids) = 0) AS aux
    FROM agents a LEFT JOIN slots s ON s.agent_id = a.id WHERE a.state <> 'LOST' GROUP BY a.pool
""")
_QUEUE_STATS = text("""
    SELECT pool, count(*) FILTER (WHERE NOT scheduled) AS queued, count(*) FILTER (WHERE scheduled) AS scheduled
    FROM (SELECT pool, job_id, bool_or(state <> 'QUEUED') AS scheduled FROM allocations
          WHERE state <> 'TERMINATED' AND job_id IS NOT NULL GROUP BY pool, job_id) jobs
    GROUP BY pool
""")


@dataclass(frozen=True, slots=True)
class PoolUse:
    agents: int = 0
    slots: int = 0
    used: int = 0
    device_type: str = "unspecified"
    aux: int = 0
    queued: int = 0
    scheduled: int = 0


def agents(db: Database) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = db.read(_LIST)[0][0]
    return rows


def agent(db: Database, agent_id: str) -> dict[str, Any] | None:
    rows = db.read(_ONE, {"id": agent_id})
    return rows[0][0] if rows else None


def use_of_pools(db: Database) -> dict[str, PoolUse]:
    """Return the agents, slots and queue of each pool that has any, by its name."""
    pools: dict[str, dict[str, Any]] = {}
    with db.autocommit() as tx:
        for statement in (_POOL_STATS, _QUEUE_STATS):
            for row in tx.execute(statement):
                values = row._asdict()
                pools.setdefault(values.pop("pool"), {}).update(values)
    return {pool: PoolUse(**values) for pool, values in pools.items()}
