"""Find the pool of a configuration, and refuse a configuration that the pool can never hold."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from det_controlplane.core.config.pools import Pool
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import resource_pools
from det_controlplane.db.scheduling import slots as slot_rows
from det_controlplane.services.context import Context
from det_controlplane.services.errors import WrongState
from det_controlplane.services.organization import pool_access, pool_bindings
from det_controlplane.services.principal import User


def pool_of(
    ctx: Context,
    submitted: Mapping[str, Any],
    template: Mapping[str, Any] | None,
    project: Any,
    user: User | None,
    slots_key: str = "slots_per_trial",
) -> Pool:
    """Choose the pool by name, else the workspace's default, else the cluster's.

    Without a user, access lists do not matter, because the work runs elsewhere."""
    resources = _resources(template) | _resources(submitted)
    slots = resources.get(slots_key, 1)
    slots = slots if isinstance(slots, int) else 1
    fallback = project.default_compute_pool if slots else project.default_aux_pool
    requested = resources.get("resource_pool") or fallback or ""
    pool = ctx.config.pool_for(str(requested), slots)
    if isinstance(pool, Problem):
        raise InvalidConfig([pool])
    refuse_reserved(ctx, pool, project)
    refuse_closed(ctx, pool, project, user)
    return pool


def pool_and_problems(
    ctx: Context,
    submitted: Mapping[str, Any],
    template: Mapping[str, Any] | None,
    project: Any,
    user: User | None,
    slots_key: str = "slots_per_trial",
) -> tuple[Pool, list[Problem]]:
    """Return the pool, or the problem with it and another pool for the check of the other settings."""
    try:
        return pool_of(ctx, submitted, template, project, user, slots_key), []
    except InvalidConfig as error:
        return ctx.config.resource_pools[0], list(error.problems)


def refuse_reserved(ctx: Context, pool: Pool, project: Any) -> None:
    """Refuse pools that are bound to other workspaces."""
    usable = pool_bindings.usable(ctx, project.bound_pools or {}, project.workspace_id)
    if pool.pool_name not in usable:
        message = f"{pool.pool_name!r} is reserved for other workspaces; this one may use: {', '.join(usable)}"
        raise InvalidConfig([Problem("resources.resource_pool", message)])


def refuse_closed(ctx: Context, pool: Pool, project: Any, user: User | None) -> None:
    """Refuse a pool that is being deleted, and a pool that the user may not use."""
    fault = fault_of_pool(ctx, pool, user, project.restricted_pools or ())
    if fault:
        usable = pool_bindings.usable(ctx, project.bound_pools or {}, project.workspace_id)
        names = _open_names(ctx, user, usable, project.restricted_pools or ())
        message = f"{pool.pool_name!r} {fault}; {names}"
        raise InvalidConfig([Problem("resources.resource_pool", message)])


def fault_of_pool(ctx: Context, pool: Pool, user: User | None, restricted: Collection[str]) -> str:
    """Return why a user may not submit work to a pool, or an empty text."""
    if pool.is_leaving:
        return "is being deleted and takes no new work"
    if user is None or pool.pool_name not in restricted:
        return ""
    access = pool_access.closed_to(ctx, user).get(pool.pool_name)
    if access is None:
        return ""
    return f"is {pool_access.sentence(access)}: ask an administrator for access (`det pool access grant`)"


def _open_names(
    ctx: Context, user: User | None, names: Sequence[str], restricted: Collection[str]
) -> str:
    """Return the pools that a user may name instead."""
    closed = pool_access.closed_to(ctx, user) if user is not None and restricted else {}
    pools = [ctx.config.pool(name) for name in names if name not in closed]
    usable = [pool.pool_name for pool in pools if pool is not None and not pool.is_leaving]
    return f"you may use: {', '.join(usable)}" if usable else "there is no other pool for you"


def keep_open(ctx: Context, tx: Tx, pool_name: str) -> None:
    """Keep a pool from being deleted until the transaction ends, which adds work to it."""
    pool = ctx.config.pool(pool_name)
    if pool is not None and pool.is_stored and not resource_pools.hold_open(tx, pool_name):
        raise WrongState(f"resource pool {pool_name!r} was just deleted: choose another one")


def _resources(config: Mapping[str, Any] | None) -> dict[str, Any]:
    resources = (config or {}).get("resources")
    return dict(resources) if isinstance(resources, Mapping) else {}


def of_pool(ctx: Context, pool_name: str) -> int | None:
    """Return the most slots that one allocation could get, including machines to be rented; None without any agent."""
    pool = ctx.config.pool(pool_name)
    to_come = pool.limits.max_instances * _largest_to_come(pool) if pool else 0
    return max(slot_rows.count(ctx.db, pool_name), to_come) or None


def _largest_to_come(pool: Pool) -> int:
    return max((offer.slots for offer in pool.offers), default=0)


def largest_agent(ctx: Context, pool: Pool) -> int | None:
    """Return the most slots of one agent, including machines to be rented; None without any agent."""
    return max(slot_rows.of_largest_agent(ctx.db, pool.pool_name), _largest_to_come(pool)) or None


def too_large_for_one_agent(ctx: Context, pool: Pool, slots: int) -> Problem | None:
    """Return the problem if no agent of the pool can have enough slots, else None."""
    most = largest_agent(ctx, pool)
    if most is None or slots <= most:
        return None
    message = (
        f"request unfulfillable: asks for {slots} slots of one agent, but the largest of resource pool {pool.pool_name!r} has {most};"
        " ask for fewer, leave is_single_node out, or choose another pool"
    )
    return Problem("resources.is_single_node", message)


def too_large_task(ctx: Context, pool: Pool, slots: int) -> Problem | None:
    """Return the reason why a task can never run on one agent, or None. Trials are checked elsewhere."""
    most = largest_agent(ctx, pool)
    if most is None or slots <= most:
        return None
    message = (
        f"request unfulfillable: asks for {slots} slots, and this task runs on one agent, but the largest of"
        f" resource pool {pool.pool_name!r} has {most}; ask for fewer, or choose another pool"
    )
    return Problem("resources.slots", message)


def is_exhausted(ctx: Context, tx: Tx, pool_name: str, blocked: Sequence[str], slots: int) -> bool:
    """Return whether a pool without the blocked agents has too few slots, and no machines to come."""
    pool = ctx.config.pool(pool_name)
    if pool is not None and pool.provider is not None:
        return False
    return slot_rows.left(tx, pool_name, blocked) < slots


def exceeds(ctx: Context, pool_name: str, slots: int) -> bool:
    if slots <= 1:
        return False
    most = of_pool(ctx, pool_name)
    return most is not None and slots > most


def sentence(slots: int, pool: Pool, most: int | None) -> str:
    if pool.offers:
        most_machines = pool.limits.max_instances
        has = f"can have {most} with {most_machines} machines of its largest type"
        return f"asks for {slots} slots, but resource pool {pool.pool_name!r} {has}; ask for fewer, or raise max_instances"
    return (
        f"asks for {slots} slots, but resource pool {pool.pool_name!r} has {most} in all;"
        " ask for fewer, choose another pool, or add agents"
    )
