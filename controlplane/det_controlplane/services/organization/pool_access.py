"""The users and groups that may use a pool. A pool without a list is open to everybody."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.people.roles import Right
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import pool_access as rows
from det_controlplane.db.scheduling.pool_access import Access, Holders
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.organization import pool_bindings
from det_controlplane.services.principal import User


def every(ctx: Context) -> dict[str, Access]:
    """Return the restricted pools with their users and groups."""
    with ctx.db.autocommit() as tx:
        return rows.every(tx)


def of(ctx: Context, pool: str) -> dict[str, Any]:
    pool_bindings.require_known(ctx, pool)
    return shown(every(ctx).get(pool))


def shown(access: Access | None) -> dict[str, Any]:
    """Return the access to a pool as the API shows it."""
    if access is None:
        return {"restricted": False, "users": [], "groups": []}
    return {"restricted": True, "users": list(access.users), "groups": list(access.groups)}


def sentence(access: Access) -> str:
    """Return the users and groups of a restricted pool in words."""
    parts = []
    for noun, names in (("group", access.groups), ("user", access.users)):
        if names:
            parts.append(f"{noun}{'s' if len(names) > 1 else ''} {', '.join(names)}")
    return "restricted to " + (" and ".join(parts) or "administrators")


def closed_to(ctx: Context, user: User) -> Mapping[str, Access]:
    """Return the restricted pools that a user may not use. Administrators in person may use every pool."""
    if user.admin:
        return {}
    with ctx.db.autocommit() as tx:
        restricted = rows.every(tx)
        own = rows.usable_by(tx, user.id) if restricted else set()
    return {pool: access for pool, access in restricted.items() if pool not in own}


def grant(
    ctx: Context, caller: User, pool: str, users: Sequence[str], groups: Sequence[str]
) -> dict[str, Any]:
    """Restrict a pool to the users and groups of its list, and add some. None restricts it to administrators."""
    _require(ctx, caller, pool)
    with ctx.db.begin() as tx:
        holders = _holders(tx, users, groups)
        rows.restrict(tx, pool, ctx.now())
        rows.add(tx, pool, holders)
    return of(ctx, pool)


def revoke(
    ctx: Context, caller: User, pool: str, users: Sequence[str], groups: Sequence[str]
) -> dict[str, Any]:
    """Take users and groups off the list of a restricted pool. Their queued and running work stays."""
    _require(ctx, caller, pool)
    if not (users or groups):
        raise Invalid("name the users or groups that lose access")
    with ctx.db.begin() as tx:
        listed = rows.every(tx).get(pool)
        if listed is None:
            raise WrongState(
                f"resource pool '{pool}' is open to everybody: restrict it by `det pool access grant` first"
            )
        holders = _holders(tx, users, groups)
        unlisted = [f"user '{n}'" for n in users if n not in listed.users]
        unlisted += [f"group '{n}'" for n in groups if n not in listed.groups]
        if unlisted:
            raise Missing(f"{', '.join(unlisted)} not in the list of resource pool '{pool}'")
        rows.remove(tx, pool, holders)
    return of(ctx, pool)


def open_to_all(ctx: Context, caller: User, pool: str) -> dict[str, Any]:
    """Delete the list of a pool, so that everybody may use it."""
    _require(ctx, caller, pool)
    with ctx.db.begin() as tx:
        rows.lift(tx, pool)
    return of(ctx, pool)


def _require(ctx: Context, caller: User, pool: str) -> None:
    require_right(
        caller, Right.MODIFY_RP_WORKSPACE_BINDINGS, "change the access to a resource pool"
    )
    pool_bindings.require_known(ctx, pool)


def _holders(tx: Tx, users: Sequence[str], groups: Sequence[str]) -> Holders:
    by_user, by_group = rows.users_named(tx, users), rows.groups_named(tx, groups)
    lost = [f"user '{name}'" for name in users if name not in by_user]
    lost += [f"group '{name}'" for name in groups if name not in by_group]
    if lost:
        raise Missing(f"{', '.join(lost)} not found")
    return Holders(list(by_user.values()), list(by_group.values()))
