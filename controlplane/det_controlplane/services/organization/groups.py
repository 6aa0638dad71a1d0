"""Groups of users."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.core.paging import Page
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx, Violated
from det_controlplane.db.pages import Listing
from det_controlplane.db.views import USER
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_admin

_DETAILS = text(f"""
    SELECT json_build_object('groupId', g.id, 'name', g.name, 'users', coalesce(
        (SELECT json_agg({USER} ORDER BY u.id) FROM users u JOIN group_members m ON m.user_id = u.id AND m.group_id = g.id),
        '[]'::json)) FROM groups g WHERE g.id = :id
""")
_FOUND = """json_build_object('group', json_build_object('groupId', g.id, 'name', g.name),
    'numMembers', (SELECT count(*) FROM group_members m WHERE m.group_id = g.id))"""
_FILTERS = {
    "name": "g.name ILIKE '%' || :name || '%'",
    "user_id": "EXISTS (SELECT 1 FROM group_members m WHERE m.group_id = g.id AND m.user_id = :user_id)",
}
_INSERT = text("INSERT INTO groups (name) VALUES (:name) RETURNING id")
_RENAME = text("UPDATE groups SET name = :name WHERE id = :id")
_DELETE = text("DELETE FROM groups WHERE id = :id")
_ADD = text("""
    INSERT INTO group_members (group_id, user_id) VALUES (:id, :user_id) ON CONFLICT DO NOTHING
""")
_REMOVE = text("DELETE FROM group_members WHERE group_id = :id AND user_id = :user_id")


def get(ctx: Context, group_id: int) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        return _one(tx, group_id)


def search(ctx: Context, page: Page, filters: dict[str, Any]) -> str:
    where = [_FILTERS[name] for name in filters]
    with ctx.db.begin() as tx:
        return pages.fetch(tx, Listing("groups", _FOUND, "groups g", where, "g.id"), page, filters)


def create(ctx: Context, caller: User, name: str, members: Sequence[int]) -> dict[str, Any]:
    require_admin(caller, "create groups")
    try:
        with ctx.db.begin() as tx:
            group_id = int(tx.execute(_INSERT, {"name": _checked(name)}).scalar_one())
            _add(tx, group_id, members)
            return _one(tx, group_id)
    except Violated as e:
        raise _told(e, name) from e


def edit(
    ctx: Context,
    caller: User,
    group_id: int,
    name: str | None,
    added: Sequence[int],
    removed: Sequence[int],
) -> dict[str, Any]:
    require_admin(caller, "edit groups")
    try:
        with ctx.db.begin() as tx:
            _one(tx, group_id)
            if name:
                tx.execute(_RENAME, {"id": group_id, "name": _checked(name)})
            _add(tx, group_id, added)
            for user_id in removed:
                tx.execute(_REMOVE, {"id": group_id, "user_id": user_id})
            return _one(tx, group_id)
    except Violated as e:
        raise _told(e, name or "") from e


def delete(ctx: Context, caller: User, group_id: int) -> None:
    require_admin(caller, "delete groups")
    with ctx.db.begin() as tx:
        if not tx.execute(_DELETE, {"id": group_id}).rowcount:
            raise Missing(f"group {group_id} not found")


def _add(tx: Tx, group_id: int, members: Sequence[int]) -> None:
    for user_id in members:
        tx.execute(_ADD, {"id": group_id, "user_id": user_id})


def _one(tx: Tx, group_id: int) -> dict[str, Any]:
    found: dict[str, Any] | None = tx.execute(_DETAILS, {"id": group_id}).scalar()
    if found is None:
        raise Missing(f"group {group_id} not found")
    return found


def _checked(name: str) -> str:
    if not name.strip():
        raise Invalid("a group's name must not be blank")
    return name.strip()


def _told(e: Violated, name: str) -> Missing | Taken:
    if e.constraint.startswith("group_members"):
        return Missing("one of the users does not exist: see 'det user list'")
    return Taken(f"group '{name}' already exists: choose another name")
