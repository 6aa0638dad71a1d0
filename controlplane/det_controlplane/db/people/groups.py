"""Groups of users."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Text, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, has_text, one_of
from det_controlplane.db.engine.views import shown
from det_controlplane.db.people.users import SHOWN as USER
from det_controlplane.db.schema import group_members, groups, users

_g, _m = groups.c, group_members.c
_MEMBERS = (
    select(func.json_agg(aggregate_order_by(USER, users.c.id)))
    .select_from(users.join(group_members))
    .where(_m.group_id == _g.id)
)
_ONE = select(
    shown(
        groupId=_g.id,
        name=_g.name,
        users=func.coalesce(_MEMBERS.scalar_subquery(), literal_column("'[]'::json")),
    )
).where(_g.id == bindparam("id"))
_COUNT = select(func.count()).where(_m.group_id == _g.id)
_LISTED = Collection(
    "groups",
    select(shown(group=shown(groupId=_g.id, name=_g.name), numMembers=_COUNT.scalar_subquery())),
    orders={"": _g.id},
    filters={
        "name": has_text(_g.name, bindparam("name", type_=Text())),
        "user_id": select(_m.group_id)
        .where(_m.group_id == _g.id, _m.user_id == bindparam("user_id"))
        .exists(),
    },
)


def one(tx: Tx, group_id: int) -> dict[str, Any] | None:
    group: dict[str, Any] | None = tx.execute(_ONE, {"id": group_id}).scalar()
    return group


def listed(db: Database, page: Page, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _LISTED, page, Sort(), filters)


def create(tx: Tx, name: str) -> int:
    return int(tx.execute(insert(groups).values(name=name).returning(_g.id)).scalar_one())


def rename(tx: Tx, group_id: int, name: str) -> None:
    tx.execute(update(groups).where(_g.id == group_id).values(name=name))


def remove(tx: Tx, group_id: int) -> bool:
    return tx.execute(delete(groups).where(_g.id == group_id)).rowcount == 1


def add_members(tx: Tx, group_id: int, user_ids: Sequence[int]) -> None:
    add = insert(group_members).on_conflict_do_nothing()
    for user_id in user_ids:
        tx.execute(add, {"group_id": group_id, "user_id": user_id})


def remove_members(tx: Tx, group_id: int, user_ids: Sequence[int]) -> None:
    statement = delete(group_members).where(_m.group_id == group_id, one_of(_m.user_id, "ids"))
    tx.execute(statement, {"ids": list(user_ids)})


def set_memberships(tx: Tx, user_id: int, names: Sequence[str]) -> None:
    """Set the groups of a user to the existing ones of these names."""
    group_ids = select(_g.id).where(_g.name.in_(names))
    tx.execute(delete(group_members).where(_m.user_id == user_id, _m.group_id.not_in(group_ids)))
    new = select(_g.id, bindparam("member", user_id)).where(_g.name.in_(names))
    add = insert(group_members).from_select(["group_id", "user_id"], new)
    tx.execute(add.on_conflict_do_nothing())
