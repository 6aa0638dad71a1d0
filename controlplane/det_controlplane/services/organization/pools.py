"""Resource pools reserved for workspaces (facts §9.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.core.paging import Page
from det_controlplane.db.engine import Tx
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_admin

_BOUND = text("SELECT workspace_id FROM pool_bindings WHERE pool = :pool ORDER BY workspace_id")
_ALL_BOUND = text(
    "SELECT pool, array_agg(workspace_id ORDER BY workspace_id) AS workspaces FROM pool_bindings GROUP BY pool"
)
_IDS = text("""
    SELECT id, name FROM workspaces WHERE id = ANY(cast(:ids AS integer[])) OR name = ANY(cast(:names AS text[]))
""")
_BIND = text("""
    INSERT INTO pool_bindings (pool, workspace_id) VALUES (:pool, :workspace_id) ON CONFLICT DO NOTHING
""")
_UNBIND = text("""
    DELETE FROM pool_bindings WHERE pool = :pool AND workspace_id = ANY(cast(:ids AS integer[]))
""")
_UNBIND_ALL = text("DELETE FROM pool_bindings WHERE pool = :pool")


def workspaces_of(ctx: Context, pool: str) -> list[int]:
    """Empty: the pool is for everybody."""
    with ctx.db.begin() as tx:
        return [r[0] for r in tx.execute(_BOUND, {"pool": pool}).all()]


def open_to(ctx: Context, workspace_id: int) -> list[str]:
    """The pools that a workspace may use: its own, and those of nobody."""
    return usable(ctx, {r.pool: r.workspaces for r in ctx.db.read(_ALL_BOUND)}, workspace_id)


def usable(ctx: Context, bound: Mapping[str, Sequence[int]], workspace_id: int) -> list[str]:
    """The same, where it is known already which pools are bound to which workspaces."""
    names = [p.pool_name for p in ctx.config.resource_pools]
    return [n for n in names if workspace_id in bound.get(n, [workspace_id])]


def unbound(ctx: Context) -> set[str]:
    with ctx.db.begin() as tx:
        bound = {r.pool for r in tx.execute(_ALL_BOUND).all()}
    return {p.pool_name for p in ctx.config.resource_pools} - bound


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
        workspaces = _resolved(tx, ids, names)
        if replace:
            tx.execute(_UNBIND_ALL, {"pool": pool})
        for workspace_id in workspaces:
            tx.execute(_BIND, {"pool": pool, "workspace_id": workspace_id})


def unbind(ctx: Context, caller: User, pool: str, ids: Sequence[int], names: Sequence[str]) -> None:
    require_admin(caller, "change which workspaces a resource pool is for")
    _check_known(ctx, pool)
    with ctx.db.begin() as tx:
        tx.execute(_UNBIND, {"pool": pool, "ids": _resolved(tx, ids, names)})


def page(items: Sequence[Any], page: Page) -> tuple[list[Any], dict[str, int]]:
    """A page of a short list that is in memory."""
    total = len(items)
    first = max(total + page.offset, 0) if page.offset < 0 else min(page.offset, total)
    end = total if page.most is None else min(first + page.most, total)
    shown = {
        "offset": page.offset, "limit": page.limit, "startIndex": first, "endIndex": end, "total": total,
    }  # fmt: skip
    return list(items[first:end]), shown


def _check_bindable(ctx: Context, caller: User, pool: str) -> None:
    require_admin(caller, "change which workspaces a resource pool is for")
    _check_known(ctx, pool)
    config = ctx.config
    if pool in (config.default_compute_resource_pool, config.default_aux_resource_pool):
        raise Invalid(
            f"resource pool '{pool}' is a default pool: everybody needs it, do not bind it"
        )


def _check_known(ctx: Context, pool: str) -> None:
    if ctx.config.pool(pool) is None:
        known = ", ".join(p.pool_name for p in ctx.config.resource_pools)
        raise Missing(f"resource pool '{pool}' not found; this cluster has: {known}")


def _resolved(tx: Tx, ids: Sequence[int], names: Sequence[str]) -> list[int]:
    rows = tx.execute(_IDS, {"ids": list(ids), "names": list(names)}).all()
    lost = [str(i) for i in ids if i not in {r.id for r in rows}]
    lost += [f"'{n}'" for n in names if n not in {r.name for r in rows}]
    if lost:
        raise Missing(f"workspaces not found: {', '.join(lost)}")
    return sorted(r.id for r in rows)
