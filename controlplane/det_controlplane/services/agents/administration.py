"""Looking at agents, slots and resource pools, and taking them in and out of service."""

from typing import Any

from sqlalchemy import text

from det_controlplane.core.config.pools import Pool
from det_controlplane.db import allocations, queue
from det_controlplane.db.engine import Tx
from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.effects import Effects
from det_controlplane.services.errors import Missing
from det_controlplane.services.scheduling import placement

_CONTAINER = """json_build_object('id', c.id, 'parent', c.agent_id, 'permissionDenied', false,
    'state', 'STATE_' || c.state, 'devices', (SELECT coalesce(json_agg(json_build_object('id', d.slot_id,
        'brand', d.device_brand, 'uuid', d.device_uuid, 'type', 'TYPE_' || upper(d.device_type::text))
        ORDER BY d.slot_id), '[]'::json)
        FROM slots d WHERE d.container_id = c.id))"""
_SLOT = f"""json_build_object('id', s.slot_id::text, 'enabled', s.enabled AND NOT s.draining, 'draining', s.draining,
    'device', json_build_object('id', s.slot_id, 'brand', s.device_brand, 'uuid', s.device_uuid,
                                'type', 'TYPE_' || upper(s.device_type::text)),
    'container', (SELECT {_CONTAINER} FROM containers c WHERE c.id = s.container_id))"""
_AGENT = f"""json_build_object('id', a.id, 'version', a.version, 'registeredTime', {time("a.joined_at")},
    'addresses', to_json(a.addresses), 'resourcePools', json_build_array(a.pool),
    'enabled', a.enabled AND NOT a.draining AND a.state = 'JOINED' AND a.out_of_service = '', 'draining', a.draining,
    'outOfService', a.out_of_service,
    'slots', (SELECT coalesce(json_object_agg(s.slot_id::text, {_SLOT} ORDER BY s.slot_id), '{{}}'::json) FROM slots s WHERE s.agent_id = a.id),
    'containers', (SELECT coalesce(json_object_agg(c.id, {_CONTAINER} ORDER BY c.assigned_at, c.id), '{{}}'::json) FROM containers c
                   WHERE c.agent_id = a.id AND c.state <> 'TERMINATED'),
    'slotStats', json_build_object('typeStats', '{{}}'::json, 'brandStats', '{{}}'::json))"""
_LIST = text(
    f"SELECT coalesce(json_agg({_AGENT} ORDER BY a.id), '[]'::json) FROM agents a WHERE a.state <> 'LOST'"
)
_ONE = text(f"SELECT {_AGENT} FROM agents a WHERE a.id = :id AND a.state <> 'LOST'")
_SET_AGENT = text(
    "UPDATE agents SET enabled = :enabled, draining = :draining WHERE id = :id AND state <> 'LOST' RETURNING pool"
)
_SET_SLOT = text("""
    UPDATE slots s SET enabled = :enabled, draining = :draining FROM agents a
    WHERE a.id = s.agent_id AND s.agent_id = :id AND s.slot_id = :slot_id RETURNING a.pool
""")
_ON_AGENT = text("""
    SELECT DISTINCT c.allocation_id FROM containers c WHERE c.agent_id = :id AND c.state <> 'TERMINATED'
      AND (cast(:slot_id AS integer) IS NULL OR :slot_id = ANY(c.slot_ids)) ORDER BY 1
""")
_POOL_STATS = text("""
    SELECT a.pool, count(DISTINCT a.id) AS agents, count(s.slot_id) AS slots,
           count(s.slot_id) FILTER (WHERE s.container_id IS NOT NULL) AS used,
           coalesce(min(s.device_type)::text, 'unspecified') AS device_type,
           (SELECT count(*) FROM containers c JOIN agents b ON b.id = c.agent_id
            WHERE b.pool = a.pool AND c.state <> 'TERMINATED' AND cardinality(c.slot_ids) = 0) AS aux
    FROM agents a LEFT JOIN slots s ON s.agent_id = a.id WHERE a.state <> 'LOST' GROUP BY a.pool
""")
_QUEUE_STATS = text("""
    SELECT pool, count(*) FILTER (WHERE state = 'QUEUED') AS queued, count(*) FILTER (WHERE state <> 'QUEUED') AS scheduled
    FROM allocations WHERE state <> 'TERMINATED' GROUP BY pool
""")


def agents(ctx: Context) -> list[dict[str, Any]]:
    with ctx.db.begin() as tx:
        found: list[dict[str, Any]] = tx.execute(_LIST).scalar_one()
    return [_with_stats(a) for a in found]


def agent(ctx: Context, agent_id: str) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        found: dict[str, Any] | None = tx.execute(_ONE, {"id": agent_id}).scalar()
    if found is None:
        raise Missing(f"agent '{agent_id}' not found")
    return _with_stats(found)


def _with_stats(agent: dict[str, Any]) -> dict[str, Any]:
    stats = agent["slotStats"]
    for slot in agent["slots"].values():
        for key, name in (
            ("typeStats", slot["device"]["type"]),
            ("brandStats", slot["device"]["brand"]),
        ):
            entry = stats[key].setdefault(
                name, {"states": {}, "disabled": 0, "draining": 0, "total": 0}
            )
            entry["total"] += 1
            entry["disabled"] += not (slot["enabled"] or slot["draining"])
            entry["draining"] += bool(slot["draining"])
            if slot["container"]:
                state = slot["container"]["state"]
                entry["states"][state] = entry["states"].get(state, 0) + 1
    return agent


def set_agent(ctx: Context, agent_id: str, *, enabled: bool, drain: bool) -> dict[str, Any]:
    """Disabling ends what runs there, unless it drains: then it may finish."""
    params = {"id": agent_id, "enabled": enabled or drain, "draining": drain and not enabled}
    _change(ctx, _SET_AGENT, params, None, kill=not enabled and not drain)
    return agent(ctx, agent_id)


def set_slot(
    ctx: Context, agent_id: str, slot_id: int, *, enabled: bool, drain: bool
) -> dict[str, Any]:
    params = {
        "id": agent_id,
        "slot_id": slot_id,
        "enabled": enabled or drain,
        "draining": drain and not enabled,
    }
    _change(ctx, _SET_SLOT, params, slot_id, kill=not enabled and not drain)
    slot: dict[str, Any] = agent(ctx, agent_id)["slots"][str(slot_id)]
    return slot


def _change(
    ctx: Context, statement: Any, params: dict[str, Any], slot_id: int | None, *, kill: bool
) -> None:
    effects = Effects(ctx)
    with ctx.db.begin() as tx:
        pool = tx.execute(statement, params).scalar()
        if pool is None:
            what = f"slot {slot_id} of " if slot_id is not None else ""
            raise Missing(f"{what}agent '{params['id']}' not found")
        if kill:
            _kill_all(tx, effects, str(params["id"]), slot_id)
        queue.mark_dirty(tx, pool)
        effects.queue_changed(pool)
    effects.announce()


def _kill_all(tx: Tx, effects: Effects, agent_id: str, slot_id: int | None) -> None:
    for row in tx.execute(_ON_AGENT, {"id": agent_id, "slot_id": slot_id}).all():
        allocation = allocations.lock(tx, row[0])
        if allocation is not None:
            allocations.kill(tx, allocation.id, f"agent {agent_id} was disabled")
            placement.announce(tx, effects, allocation)


def pools(ctx: Context) -> list[dict[str, Any]]:
    with ctx.db.begin() as tx:
        stats = {r.pool: r for r in tx.execute(_POOL_STATS).all()}
        waiting = {r.pool: r for r in tx.execute(_QUEUE_STATS).all()}
    return [
        _pool(ctx, p, stats.get(p.pool_name), waiting.get(p.pool_name))
        for p in ctx.config.resource_pools
    ]


def _pool(ctx: Context, pool: Pool, stats: Any, waiting: Any) -> dict[str, Any]:
    scheduler = pool.scheduler
    agents_n, slots, used = (stats.agents, stats.slots, stats.used) if stats else (0, 0, 0)
    limit = pool.max_aux_containers_per_agent
    provider = pool.provider
    kind = provider.type.upper() if provider else "STATIC"
    return {
        "name": pool.pool_name, "description": pool.description, "type": f"RESOURCE_POOL_TYPE_{kind}",
        "numAgents": agents_n, "slotsAvailable": slots, "slotsUsed": used,
        "slotType": f"TYPE_{(stats.device_type if stats else 'unspecified').upper()}",
        "auxContainerCapacity": limit * agents_n, "auxContainersRunning": stats.aux if stats else 0,
        "auxContainerCapacityPerAgent": limit,
        "defaultComputePool": pool.pool_name == ctx.config.default_compute_resource_pool,
        "defaultAuxPool": pool.pool_name == ctx.config.default_aux_resource_pool,
        "preemptible": scheduler.preemption,
        "minAgents": provider.min_instances if provider else 0,
        "maxAgents": provider.max_instances if provider else agents_n,
        "slotsPerAgent": slots // agents_n if agents_n else 0,
        "schedulerType": f"SCHEDULER_TYPE_{scheduler.type.upper()}",
        "schedulerFittingPolicy": f"FITTING_POLICY_{scheduler.fitting_policy.upper()}",
        "location": "on-prem" if provider is None else provider.type, "imageId": "", "instanceType": "",
        "masterUrl": ctx.public_url, "masterCertName": "", "startupScript": "",
        "containerStartupScript": "", "agentDockerNetwork": "", "agentDockerRuntime": "",
        "agentDockerImage": "", "agentFluentImage": "", "accelerator": "", "clusterName": ctx.config.cluster_name,
        "maxIdleAgentPeriod": provider.max_idle_agent_period if provider else 0.0,
        "maxAgentStartingPeriod": provider.max_agent_starting_period if provider else 0.0,
        "resourceManagerMetadata": {},
        "details": {
            "aws": None, "gcp": None,
            "priorityScheduler": {"preemption": scheduler.preemption,
                                  "defaultPriority": scheduler.default_priority, "k8Priorities": []}
            if scheduler.type == "priority" else None,
        },
        "stats": {"queuedCount": waiting.queued if waiting else 0,
                  "scheduledCount": waiting.scheduled if waiting else 0},
    }  # fmt: skip
