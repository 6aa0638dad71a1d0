"""Groups of users."""

from collections.abc import Iterator, Sequence
from typing import Any

from det_controlplane.core.paging import Page
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.people import groups
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken, require
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.principal import User


def get(ctx: Context, group_id: int) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        return _read_group(tx, group_id)


def search(ctx: Context, page: Page, filters: dict[str, Any]) -> Iterator[str]:
    return groups.listed(ctx.db, page, filters)


def create(ctx: Context, caller: User, name: str, members: Sequence[int]) -> dict[str, Any]:
    require_admin(caller, "create groups")
    try:
        with ctx.db.begin() as tx:
            group_id = groups.create(tx, _check_name(name))
            ctx.recorder.add_objects(f"group {group_id}")
            ctx.recorder.add_details(addUsers=list(members))
            groups.add_members(tx, group_id, members)
            return _read_group(tx, group_id)
    except Violated as e:
        raise _refusal(e, name) from e


def edit(
    ctx: Context,
    caller: User,
    group_id: int,
    name: str | None,
    added: Sequence[int],
    removed: Sequence[int],
) -> dict[str, Any]:
    require_admin(caller, "edit groups")
    ctx.recorder.add_details(addUsers=list(added), removeUsers=list(removed))
    try:
        with ctx.db.begin() as tx:
            _read_group(tx, group_id)
            if name:
                groups.rename(tx, group_id, _check_name(name))
            groups.add_members(tx, group_id, added)
            groups.remove_members(tx, group_id, removed)
            return _read_group(tx, group_id)
    except Violated as e:
        raise _refusal(e, name or "") from e


def delete(ctx: Context, caller: User, group_id: int) -> None:
    require_admin(caller, "delete groups")
    with ctx.db.begin() as tx:
        if not groups.remove(tx, group_id):
            raise Missing(f"group {group_id} not found")


def move_users(
    ctx: Context,
    caller: User,
    user_ids: Sequence[int],
    added: Sequence[int],
    removed: Sequence[int],
) -> None:
    """Add users to some groups, and take them out of others."""
    require_admin(caller, "edit groups")
    concerned = [f"group {id}" for id in (*added, *removed)]
    ctx.recorder.add_objects(*(f"user {id}" for id in user_ids), *concerned)
    ctx.recorder.add_details(
        userIds=list(user_ids), addGroups=list(added), removeGroups=list(removed)
    )
    try:
        with ctx.db.begin() as tx:
            for group_id in added:
                _read_group(tx, group_id)
                groups.add_members(tx, group_id, user_ids)
            for group_id in removed:
                groups.remove_members(tx, group_id, user_ids)
    except Violated as e:
        raise _refusal(e, "") from e


def _read_group(tx: Tx, group_id: int) -> dict[str, Any]:
    return require(groups.one(tx, group_id), f"group {group_id}")


def _check_name(name: str) -> str:
    if not name.strip():
        raise Invalid("a group's name must not be blank")
    return name.strip()


def _refusal(e: Violated, name: str) -> Missing | Taken:
    if e.constraint.startswith("group_members"):
        return Missing("one of the users does not exist: see 'det user list'")
    return Taken(f"group '{name}' already exists: choose another name")
