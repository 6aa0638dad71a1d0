"""Looking at agents, slots and resource pools, and taking them in and out of service."""

from typing import Any

from det_controlplane.core.config.pools import Pool
from det_controlplane.core.people.roles import Right
from det_controlplane.db.agents import agent_views
from det_controlplane.db.agents import agents as rows
from det_controlplane.db.agents.agent_views import PoolUse
from det_controlplane.db.tasks import containers
from det_controlplane.services.agents import pool_details
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.organization import pool_access
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import change


def agents(ctx: Context, *, slots: bool, containers: bool) -> list[str]:
    """Return the JSON of each agent, with its slots and containers if they are wanted."""
    return agent_views.agents(ctx.db, slots=slots, containers=containers)


def agent(ctx: Context, agent_id: str) -> dict[str, Any]:
    view = agent_views.agent(ctx.db, agent_id)
    if view is None:
        raise Missing(f"agent '{agent_id}' not found")
    return view


def set_agent(
    ctx: Context, caller: User, agent_id: str, *, enabled: bool, drain: bool
) -> dict[str, Any]:
    """Enable or disable an agent. Disabling kills its containers unless it drains: then they may finish."""
    require_right(caller, Right.UPDATE_AGENTS, "take agents in and out of service")
    _change(ctx, agent_id, None, enabled, drain)
    return agent(ctx, agent_id)


def set_slot(
    ctx: Context, caller: User, agent_id: str, slot_id: int, *, enabled: bool, drain: bool
) -> dict[str, Any]:
    require_right(caller, Right.UPDATE_AGENTS, "take slots in and out of service")
    _change(ctx, agent_id, slot_id, enabled, drain)
    slot: dict[str, Any] = agent(ctx, agent_id)["slots"][str(slot_id)]
    return slot


def _change(ctx: Context, agent_id: str, slot_id: int | None, enabled: bool, drain: bool) -> None:
    with change(ctx) as changed:
        pool = rows.put_in_service(
            changed.tx, agent_id, slot_id, enabled=enabled or drain, draining=drain and not enabled
        )
        if pool is None:
            slot_text = f"slot {slot_id} of " if slot_id is not None else ""
            raise Missing(f"{slot_text}agent '{agent_id}' not found")
        changed.queue_changed(pool)
        allocation_ids = (
            [] if enabled or drain else containers.allocations_on(changed.tx, agent_id, slot_id)
        )
    for allocation_id in allocation_ids:
        stopping.kill_and_requeue(ctx, allocation_id, f"agent {agent_id} was disabled")


def pools(ctx: Context) -> list[dict[str, Any]]:
    use, access = agent_views.use_of_pools(ctx.db), pool_access.every(ctx)
    return [
        _pool(ctx, p, use.get(p.pool_name, PoolUse()))
        | {
            "source": "database" if p.is_stored else "configuration",
            "isLeaving": p.is_leaving,
            "problem": p.problem,
            "access": pool_access.shown(access.get(p.pool_name)),
        }
        for p in ctx.config.resource_pools
    ]


def _pool(ctx: Context, pool: Pool, use: PoolUse) -> dict[str, Any]:
    scheduler = pool.scheduler
    limit = pool.max_aux_containers_per_agent
    provider = pool.provider
    # Determined's API has no name for other clouds.
    kind = provider.type.upper() if provider and provider.type in ("aws", "gcp") else "STATIC"
    return {
        "name": pool.pool_name, "description": pool.description, "type": f"RESOURCE_POOL_TYPE_{kind}",
        "numAgents": use.agents, "slotsAvailable": use.slots, "slotsUsed": use.used,
        "slotType": f"TYPE_{use.device_type.upper()}",
        "auxContainerCapacity": limit * use.agents, "auxContainersRunning": use.aux,
        "auxContainerCapacityPerAgent": limit,
        "defaultComputePool": pool.pool_name == ctx.config.default_compute_resource_pool,
        "defaultAuxPool": pool.pool_name == ctx.config.default_aux_resource_pool,
        "preemptible": scheduler.preemption,
        "minAgents": provider.min_instances if provider else 0,
        "maxAgents": provider.max_instances if provider else use.agents,
        "slotsPerAgent": (use.slots // use.agents) if use.agents else pool_details.slots_per_agent(pool),
        "schedulerType": f"SCHEDULER_TYPE_{scheduler.type.upper()}",
        "schedulerFittingPolicy": f"FITTING_POLICY_{scheduler.fitting_policy.upper()}",
        "imageId": "", "instanceType": "", "accelerator": "", **pool_details.of_machines(pool),
        "masterUrl": ctx.host.public_url, "masterCertName": "", "startupScript": "",
        "containerStartupScript": "", "agentDockerNetwork": "", "agentDockerRuntime": "",
        "agentDockerImage": "", "agentFluentImage": "", "clusterName": ctx.config.cluster_name,
        "maxIdleAgentPeriod": provider.max_idle_agent_period if provider else 0.0,
        "maxAgentStartingPeriod": provider.max_agent_starting_period if provider else 0.0,
        "resourceManagerMetadata": {},
        "details": {
            **pool_details.details(pool),
            "priorityScheduler": {"preemption": scheduler.preemption,
                                  "defaultPriority": scheduler.default_priority, "k8Priorities": []}
            if scheduler.type == "priority" else None,
        },
        "stats": {"queuedCount": use.queued, "scheduledCount": use.scheduled},
    }  # fmt: skip
