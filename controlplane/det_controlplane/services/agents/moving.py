"""Agents that change pool without being installed again. Busy agents take no new work and move after theirs."""

from typing import Any

from det_controlplane.core.config.pools import Pool
from det_controlplane.core.people.roles import Right
from det_controlplane.db.agents import moves
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import resource_pools, schedule
from det_controlplane.services.agents import administration
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import Change, change


def move(
    ctx: Context, caller: User, agent_id: str, pool_name: str, *, preempt: bool = False
) -> dict[str, Any]:
    """Move an agent to another pool when it is idle. `preempt` asks its work to save checkpoints and stop."""
    require_right(caller, Right.UPDATE_AGENTS, "move agents to another pool")
    with change(ctx) as changed:
        hold_target(ctx, changed.tx, pool_name)
        agent = moves.locked(changed.tx, agent_id)
        if agent is None:
            raise Missing(f"agent '{agent_id}' not found: only connected agents can move")
        if agent.is_rented:
            raise WrongState(
                f"agent '{agent_id}' runs on a rented machine, which belongs to pool '{agent.pool}':"
                " let the other pool rent its own machines"
            )
        if pool_name == agent.pool:
            moves.plan(changed.tx, [agent_id], None)
        else:
            moves.plan(changed.tx, [agent_id], pool_name)
            carry_out(changed)
        changed.queue_changed(agent.pool)
    if preempt and agent.has_work and pool_name != agent.pool:
        reason = f"agent {agent_id} moves to resource pool {pool_name}"
        stopping.ask_all_on_agent(ctx, agent_id, reason)
    return administration.agent(ctx, agent_id)


def require_target(ctx: Context, name: str) -> Pool:
    """Return a pool that agents can move to. Raises if it does not exist or rents its machines."""
    pool = ctx.config.pool(name)
    if pool is None:
        names = ", ".join(p.pool_name for p in ctx.config.resource_pools)
        raise Missing(f"resource pool '{name}' not found; this cluster has: {names}")
    if pool.provider is not None:
        static = [p.pool_name for p in ctx.config.resource_pools if p.provider is None]
        names = ", ".join(static) or "none"
        raise Invalid(
            f"resource pool '{name}' rents its machines: agents move to pools without provider, which are: {names}"
        )
    if pool.is_leaving:
        raise WrongState(f"resource pool '{name}' is being deleted: choose another one")
    return pool


def hold_target(ctx: Context, tx: Tx, name: str) -> None:
    """Check a pool that agents move to. Nobody deletes it or has it rent machines until the transaction ends."""
    if not require_target(ctx, name).is_stored:
        return
    row = resource_pools.held(tx, name)
    rents = row is not None and (row.settings.get("provider") or row.settings.get("offers"))
    if row is None or row.is_leaving or rents:
        raise WrongState(f"resource pool '{name}' has just changed and takes no agents any more")


def finish(ctx: Context) -> None:
    """Move the agents that wait for the end of their work and have none left."""
    with ctx.db.autocommit() as tx:
        if not moves.planned_from(tx):
            return
    with change(ctx) as changed:
        carry_out(changed)


def carry_out(change: Change) -> None:
    """Move the agents without work that are about to. A pool that is being scheduled may give them work; it is next."""
    tx = change.tx
    pools = {pool: schedule.try_lock(tx, pool) for pool in moves.planned_from(tx)}
    agent_ids = moves.idle(tx, [pool for pool, is_locked in pools.items() if is_locked])
    for pool in (*pools, *(moves.carry_out(tx, agent_ids) if agent_ids else ())):
        change.queue_changed(pool)
