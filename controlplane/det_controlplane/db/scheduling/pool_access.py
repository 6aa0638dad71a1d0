"""Rows of the users and groups that may use restricted pools."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, or_, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import group_members, groups, pool_access, restricted_pools, users

_r, _a = restricted_pools.c, pool_access.c
_EVERY = (
    select(_r.pool, users.c.username, groups.c.name)
    .outerjoin_from(restricted_pools, pool_access, _a.pool == _r.pool)
    .outerjoin(users, users.c.id == _a.user_id)
    .outerjoin(groups, groups.c.id == _a.group_id)
    .order_by(_r.pool, users.c.username, groups.c.name)
)


@dataclass(frozen=True, slots=True)
class Access:
    """The users and groups that may use a restricted pool, by name."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Holders:
    """Users and groups by their ids."""

    users: Sequence[int] = ()
    groups: Sequence[int] = ()


def every(tx: Tx) -> dict[str, Access]:
    """Return the restricted pools with their users and groups."""
    of_users: dict[str, list[str]] = {}
    of_groups: dict[str, list[str]] = {}
    for pool, username, group in tx.execute(_EVERY):
        of_users.setdefault(pool, []).extend([username] if username else [])
        of_groups.setdefault(pool, []).extend([group] if group else [])
    return {pool: Access(tuple(names), tuple(of_groups[pool])) for pool, names in of_users.items()}


def usable_by(tx: Tx, user_id: int) -> set[str]:
    """Return the restricted pools that a user may use."""
    of_user = or_(_a.user_id == user_id, group_members.c.user_id == user_id)
    members = select(_a.pool).outerjoin_from(
        pool_access, group_members, group_members.c.group_id == _a.group_id
    )
    return set(tx.execute(members.where(of_user)).scalars())


def restrict(tx: Tx, pool: str, now: datetime) -> None:
    """Let only the users and groups of the list use a pool."""
    row = insert(restricted_pools).values(pool=pool, restricted_at=now)
    tx.execute(row.on_conflict_do_nothing())


def lift(tx: Tx, pool: str) -> bool:
    """Let everybody use a pool; return whether it was restricted."""
    return tx.execute(delete(restricted_pools).where(_r.pool == pool)).rowcount == 1


def add(tx: Tx, pool: str, holders: Holders) -> None:
    rows = [{"pool": pool, "user_id": id, "group_id": None} for id in holders.users]
    rows += [{"pool": pool, "user_id": None, "group_id": id} for id in holders.groups]
    for row in rows:
        tx.execute(insert(pool_access).values(row).on_conflict_do_nothing())


def remove(tx: Tx, pool: str, holders: Holders) -> int:
    """Take a pool away from users and groups; return how many had it."""
    held = or_(_a.user_id.in_(holders.users), _a.group_id.in_(holders.groups))
    return tx.execute(delete(pool_access).where(_a.pool == pool, held)).rowcount


def users_named(tx: Tx, names: Sequence[str]) -> dict[str, int]:
    query = select(users.c.username, users.c.id).where(users.c.username.in_(names))
    return {row[0]: row[1] for row in tx.execute(query)}


def groups_named(tx: Tx, names: Sequence[str]) -> dict[str, int]:
    query = select(groups.c.name, groups.c.id).where(groups.c.name.in_(names))
    return {row[0]: row[1] for row in tx.execute(query)}
