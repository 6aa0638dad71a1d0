"""Rows of roles that are assigned to users and groups, in a workspace or the whole cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, func, literal_column, or_, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.pages import has_text
from det_controlplane.db.people.users import SHOWN as USER
from det_controlplane.db.schema import group_members, groups, role_assignments, users

_r = role_assignments.c
_KEYS: list[Any] = [
    literal_column(f"coalesce({column}, 0)") for column in ("user_id", "group_id", "workspace_id")
]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A role of a user or of a group; workspace 0 stands for the cluster."""

    role: str
    user_id: int | None
    group_id: int | None
    workspace_id: int


_ALL = select(_r.role, _r.user_id, _r.group_id, func.coalesce(_r.workspace_id, 0))


def of_user(user_id: Any) -> Any:
    """Return the condition that an assignment is a user's own, or of a group of the user's."""
    own = select(group_members.c.group_id).where(group_members.c.user_id == user_id)
    return or_(_r.user_id == user_id, _r.group_id.in_(own))


def held_by(user_id: Any) -> Any:
    """Return the expression for all roles of a user, as pairs with their workspaces; NULL for none."""
    pair = func.json_build_array(_r.role, func.coalesce(_r.workspace_id, 0))
    return select(func.json_agg(pair)).where(of_user(user_id)).scalar_subquery()


def add(tx: Tx, assignment: Assignment) -> None:
    """Give a role; it may have been given before."""
    new = insert(role_assignments).values(_columns(assignment))
    tx.execute(new.on_conflict_do_nothing(index_elements=[*_KEYS, _r.role]))


def remove(tx: Tx, assignment: Assignment) -> bool:
    same = (_r[name].is_not_distinct_from(value) for name, value in _columns(assignment).items())
    return tx.execute(delete(role_assignments).where(and_(*same))).rowcount == 1


def _columns(assignment: Assignment) -> dict[str, Any]:
    return {
        "role": assignment.role, "user_id": assignment.user_id, "group_id": assignment.group_id,
        "workspace_id": assignment.workspace_id or None,
    }  # fmt: skip


def every(tx: Tx, roles: Iterable[str]) -> list[Assignment]:
    return _read_assignments(tx, _r.role.in_(list(roles)))


def through(tx: Tx, user_id: int) -> list[Assignment]:
    """Return the roles that a user has, also by groups."""
    return _read_assignments(tx, of_user(user_id))


def of_group(tx: Tx, group_id: int) -> list[Assignment]:
    return _read_assignments(tx, _r.group_id == group_id)


def in_workspace(tx: Tx, workspace_id: int) -> list[Assignment]:
    return _read_assignments(tx, _r.workspace_id == workspace_id)


def _read_assignments(tx: Tx, condition: Any) -> list[Assignment]:
    return [Assignment(*row) for row in tx.execute(_ALL.where(condition).order_by(_r.id))]


def users_shown(tx: Tx, ids: Sequence[int], name: str) -> list[dict[str, Any]]:
    """Return users as JSON, filtered by a part of their names."""
    query = select(USER).where(users.c.id.in_(ids), has_text(users.c.username, name))
    return list(tx.execute(query.order_by(users.c.id)).scalars())


def named_groups(tx: Tx, ids: Sequence[int], name: str) -> list[int]:
    query = select(groups.c.id).where(groups.c.id.in_(ids), has_text(groups.c.name, name))
    return list(tx.execute(query.order_by(groups.c.id)).scalars())
