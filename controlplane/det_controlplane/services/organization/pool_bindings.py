"""Resource pools reserved for workspaces."""

from collections.abc import Mapping, Sequence

from det_controlplane.core.people.roles import Right
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.people import workspaces
from det_controlplane.db.scheduling import pool_bindings
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.principal import User


def workspaces_of(ctx: Context, pool: str) -> list[int]:
    """Return the workspaces that a pool is reserved for; none: every workspace may use it."""
    require_known(ctx, pool)
    return _bound(ctx).get(pool, [])


def unbound(ctx: Context) -> list[str]:
    """Return the pools that are reserved for no workspace."""
    bound = _bound(ctx)
    return [p.pool_name for p in ctx.config.resource_pools if p.pool_name not in bound]


def open_to(ctx: Context, workspace_id: int) -> list[str]:
    """Return the pools that a workspace may use: pools bound to it and unbound pools."""
    return usable(ctx, _bound(ctx), workspace_id)


def usable(ctx: Context, bound: Mapping[str, Sequence[int]], workspace_id: int) -> list[str]:
    """Return the pools that a workspace may use, given which pools are bound to which workspaces."""
    names = [p.pool_name for p in ctx.config.resource_pools]
    return [n for n in names if workspace_id in bound.get(n, [workspace_id])]


def _bound(ctx: Context) -> dict[str, list[int]]:
    with ctx.db.autocommit() as tx:
        return pool_bindings.by_pool(tx)


def bind(
    ctx: Context,
    caller: User,
    pool: str,
    ids: Sequence[int],
    names: Sequence[str],
    *,
    replace: bool = False,
) -> None:
    _check_bindable(ctx, caller, pool)
    with ctx.db.begin() as tx:
        workspace_ids = _resolve_workspaces(tx, ids, names)
        if replace:
            pool_bindings.remove(tx, pool)
        pool_bindings.add(tx, pool, workspace_ids)


def unbind(ctx: Context, caller: User, pool: str, ids: Sequence[int], names: Sequence[str]) -> None:
    _check_known(ctx, caller, pool)
    with ctx.db.begin() as tx:
        pool_bindings.remove(tx, pool, _resolve_workspaces(tx, ids, names))


def _check_bindable(ctx: Context, caller: User, pool: str) -> None:
    if pool in (ctx.config.default_compute_resource_pool, ctx.config.default_aux_resource_pool):
        raise Invalid(
            f"resource pool '{pool}' is a default pool: everybody needs it, it cannot be bound"
        )
    _check_known(ctx, caller, pool)


def _check_known(ctx: Context, caller: User, pool: str) -> None:
    require_right(
        caller, Right.MODIFY_RP_WORKSPACE_BINDINGS, "change which workspaces a resource pool is for"
    )
    require_known(ctx, pool)


def require_known(ctx: Context, pool: str) -> None:
    if ctx.config.pool(pool) is None:
        names = ", ".join(p.pool_name for p in ctx.config.resource_pools)
        raise Missing(f"resource pool '{pool}' not found; this cluster has: {names}")


def _resolve_workspaces(tx: Tx, ids: Sequence[int], names: Sequence[str]) -> list[int]:
    by_id = workspaces.named(tx, ids, names)
    lost = [str(i) for i in ids if i not in by_id]
    lost += [f"'{n}'" for n in names if n not in by_id.values()]
    if lost:
        raise Missing(f"workspaces not found: {', '.join(lost)}")
    return sorted(by_id)
