"""Pools that are deleted: at once if nothing uses them, else when their work has ended."""

from collections.abc import Iterator
from typing import Any

from det_controlplane.core.people.roles import Right
from det_controlplane.db.agents import moves
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import resource_pools as rows
from det_controlplane.db.scheduling.resource_pools import PoolWork
from det_controlplane.services import stored_pools
from det_controlplane.services.agents import moving
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, WrongState
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.pools import views
from det_controlplane.services.pools.changes import announce, locked
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import Change, change


def delete(
    ctx: Context, caller: User, name: str, *, drain: bool = False, agents_to: str = ""
) -> bool:
    """Delete a pool; return whether it is gone. With `drain` it takes no new work, and goes when its work has ended.

    `agents_to` names the pool that gets the agents that are not rented."""
    require_right(caller, Right.UPDATE_MASTER_CONFIG, "delete resource pools")
    if agents_to == name:
        raise Invalid(f"agents of resource pool '{name}' cannot move to the pool that is deleted")
    ctx.recorder.add_details(drain=drain, agentsTo=agents_to)
    with change(ctx) as changed:
        locked(ctx, changed, name)
        if agents_to:
            moving.hold_target(ctx, changed.tx, agents_to)
        _refuse_needed(ctx, changed.tx, name)
        work = rows.work_of(changed.tx, name)
        in_use = list(_uses(work))
        if in_use and not drain:
            raise WrongState(
                f"resource pool '{name}' is in use: {', '.join(in_use)}; move or end them, or give --drain:"
                " then it takes no new work and is deleted when the queued and running work has ended"
            )
        agents = moves.in_pool(changed.tx, name)
        if agents and not agents_to:
            raise WrongState(
                f"resource pool '{name}' has {_counted(len(agents), 'agent')} that the pool does not rent"
                f" ({', '.join(agents[:5])}): name the pool that gets them by --agents-to,"
                " or move them by `det agent move`"
            )
        is_gone = not work.is_going_on
        if is_gone:
            _remove(changed, name, agents_to)
        else:
            rows.set_leaving(changed.tx, name, changed.now, agents_to or None)
        announce(changed, name)
    return is_gone


def keep(ctx: Context, caller: User, name: str) -> dict[str, Any]:
    """Call off the deletion of a pool that waits for its work."""
    require_right(caller, Right.UPDATE_MASTER_CONFIG, "delete resource pools")
    with change(ctx) as changed:
        if not locked(ctx, changed, name).is_leaving:
            raise WrongState(f"resource pool '{name}' is not being deleted")
        rows.set_leaving(changed.tx, name, None, None)
        announce(changed, name)
    return views.one(stored_pools.current(ctx), caller, name)


def finish(ctx: Context) -> None:
    """Delete the pools that waited for their work and have none left."""
    for pool in ctx.config.resource_pools:
        if pool.is_leaving:
            _finish_one(ctx, pool.pool_name)


def _finish_one(ctx: Context, name: str) -> None:
    with ctx.db.autocommit() as tx:
        if rows.work_of(tx, name).is_going_on:
            return
    with change(ctx) as changed:
        row = rows.locked(changed.tx, name)
        # Work may have come before the pool stopped taking it.
        if row is None or not row.is_leaving or rows.work_of(changed.tx, name).is_going_on:
            return
        agents_to = rows.histories(changed.tx)[name].agents_to or ""
        if moves.in_pool(changed.tx, name) and not _takes_agents(ctx, agents_to):
            return
        _remove(changed, name, agents_to)
        announce(changed, name)


def _takes_agents(ctx: Context, name: str) -> bool:
    """Return whether agents can move to a pool now. A restart may have removed it from the configuration."""
    pool = ctx.config.pool(name)
    return pool is not None and pool.provider is None and not pool.is_leaving


def _remove(change: Change, name: str, agents_to: str) -> None:
    """Delete a pool without work. Its rented machines end, because their pool no longer rents."""
    agents = moves.in_pool(change.tx, name)
    if agents and agents_to:
        moves.plan(change.tx, agents, agents_to)
        moves.carry_out(change.tx, agents)
        change.queue_changed(agents_to)
    moves.release_pool(change.tx, name)
    rows.remove(change.tx, name)


def _refuse_needed(ctx: Context, tx: Tx, name: str) -> None:
    """Refuse a pool that the configuration has too, or that is the default of the cluster or a workspace."""
    if stored_pools.file_config(ctx).pool(name) is not None:
        raise WrongState(
            f"resource pool '{name}' is in the cluster configuration, too: remove its entry there first,"
            f" or return the pool to the configuration by `det pool release {name}`"
        )
    defaults = {
        "compute": ctx.config.default_compute_resource_pool,
        "aux": ctx.config.default_aux_resource_pool,
    }
    uses = [use for use, pool in defaults.items() if pool == name]
    if uses:
        raise WrongState(
            f"resource pool '{name}' is the default {' and '.join(uses)} pool:"
            " choose another one first, by `det pool default`"
        )
    leaving = rows.taken_agents(tx, name)
    if leaving:
        raise WrongState(
            f"resource pool '{name}' gets the agents of pool '{leaving[0]}', which is being deleted:"
            f" choose another one first, by `det pool delete {leaving[0]} --drain --agents-to POOL`"
        )
    spaces = rows.workspaces_defaulting_to(tx, name)
    if spaces:
        names = ", ".join(spaces[:5]) + (f" and {len(spaces) - 5} more" if len(spaces) > 5 else "")
        raise WrongState(
            f"resource pool '{name}' is a default pool of workspace {names}:"
            " choose others first, by `det workspace edit`"
        )


def _uses(work: PoolWork) -> Iterator[str]:
    if work.running:
        yield f"{_counted(work.running, 'run')} on its slots"
    if work.queued:
        yield f"{_counted(work.queued, 'run')} in its queue"
    if work.active:
        yield _counted(work.active, "active experiment")
    if work.paused:
        yield _counted(work.paused, "paused experiment")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
