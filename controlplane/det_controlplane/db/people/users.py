"""Accounts: rows, JSON, and the settings of web pages."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, bindparam, func, insert, or_, select, text, update

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx, as_json
from det_controlplane.db.engine.pages import Collection, has_text
from det_controlplane.db.engine.views import moment, shown
from det_controlplane.db.schema import sessions, users
from det_controlplane.db.schema.enums import SessionKind

_u = users.c
_DISPLAY_NAME = func.coalesce(_u.display_name, "")
SHOWN = shown(
    _u.id, _u.username, _u.admin, _u.active, _u.remote, displayName=_DISPLAY_NAME, agentUserGroup=_u.agent_user,
    modifiedAt=moment(_u.modified_at), lastAuthAt=moment(_u.last_auth_at),
)  # fmt: skip
_NAME = bindparam("name", type_=Text)
_LISTED = Collection(
    "users",
    select(SHOWN),
    orders={
        "SORT_BY_ID": _u.id, "SORT_BY_DISPLAY_NAME": _DISPLAY_NAME, "SORT_BY_USER_NAME": _u.username,
        "SORT_BY_ADMIN": _u.admin, "SORT_BY_ACTIVE": _u.active, "SORT_BY_MODIFIED_TIME": _u.modified_at,
        "SORT_BY_NAME": func.coalesce(func.nullif(_u.display_name, ""), _u.username),
        "SORT_BY_LAST_AUTH_TIME": _u.last_auth_at, "SORT_BY_REMOTE": _u.remote,
    },
    filters={
        "active": _u.active == bindparam("active"),
        "admin": _u.admin == bindparam("admin"),
        "name": or_(has_text(_u.username, _NAME), has_text(_u.display_name, _NAME)),
    },
)  # fmt: skip
_ONE, _BY_NAME = (
    select(SHOWN).where(_u.id == bindparam("id")),
    select(SHOWN).where(_u.username == _NAME),
)
_KEEP = text("""
    UPDATE users SET settings = settings || jsonb_build_object(cast(:place AS text),
        coalesce(settings->:place, '{}') || jsonb_build_object(cast(:key AS text), cast(:value AS jsonb)))
    WHERE id = :id
""")


@dataclass(frozen=True, slots=True)
class RemoteAccount:
    """An account as a sign-in elsewhere finds it."""

    id: int
    username: str
    active: bool
    remote: bool
    identity: str | None


_REMOTE = select(_u.id, _u.username, _u.active, _u.remote, _u.identity).with_for_update()


def by_identity(tx: Tx, identity: str) -> RemoteAccount | None:
    row = tx.execute(_REMOTE.where(_u.identity == identity, _u.remote)).first()
    return None if row is None else RemoteAccount(**row._mapping)


def remote(tx: Tx, username: str) -> RemoteAccount | None:
    row = tx.execute(_REMOTE.where(_u.username == username)).first()
    return None if row is None else RemoteAccount(**row._mapping)


def one(tx: Tx, user_id: int) -> dict[str, Any] | None:
    user: dict[str, Any] | None = tx.execute(_ONE, {"id": user_id}).scalar()
    return user


def by_name(tx: Tx, username: str) -> dict[str, Any] | None:
    user: dict[str, Any] | None = tx.execute(_BY_NAME, {"name": username}).scalar()
    return user


def listed(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, filters)


def create(tx: Tx, **columns: Any) -> int:
    return int(tx.execute(insert(users).values(columns).returning(_u.id)).scalar_one())


def change(tx: Tx, user_id: int, **columns: Any) -> None:
    tx.execute(update(users).where(_u.id == user_id).values(columns))


def named_like(tx: Tx, name: str, but: int) -> str | None:
    """Return the name of another user with this user name or display name in any case."""
    lower_name = func.lower(name)
    same = or_(func.lower(_u.username) == lower_name, func.lower(_u.display_name) == lower_name)
    other: str | None = tx.execute(select(_u.username).where(_u.id != but, same)).scalar()
    return other


def other_admins(tx: Tx, user_id: int) -> int:
    """Count the other active administrators."""
    others = select(func.count()).where(_u.admin, _u.active, _u.id != user_id)
    return tx.execute(others).scalar_one()


def sign_out(tx: Tx, user_id: int, now: datetime, *, keep: int) -> None:
    """End the sessions of a user except one."""
    _revoke(tx, user_id, now, (SessionKind.USER,), keep)


def end_sign_ins(tx: Tx, user_id: int, now: datetime, *, keep: int) -> None:
    """End the sessions of a user except one, and all access tokens."""
    _revoke(tx, user_id, now, (SessionKind.USER, SessionKind.ACCESS), keep)


def end_tokens(tx: Tx, user_id: int, now: datetime, *, keep: int) -> None:
    """End sessions and access tokens; the tokens of running tasks keep only the rights that a task needs for itself."""
    end_sign_ins(tx, user_id, now, keep=keep)
    s = sessions.c
    of_tasks = (s.user_id == user_id, s.kind == SessionKind.ALLOCATION, s.revoked_at.is_(None))
    tx.execute(update(sessions).where(*of_tasks).values(narrow=True))


def _revoke(tx: Tx, user_id: int, now: datetime, kinds: tuple[SessionKind, ...], keep: int) -> None:
    s = sessions.c
    open_ = (s.user_id == user_id, s.kind.in_(kinds), s.id != keep, s.revoked_at.is_(None))
    tx.execute(update(sessions).where(*open_).values(revoked_at=now))


def settings(tx: Tx, user_id: int) -> dict[str, dict[str, str]]:
    """Return the values of web settings by place and key."""
    values: dict[str, Any] | None = tx.execute(select(_u.settings).where(_u.id == user_id)).scalar()
    return values or {}


def settings_size(tx: Tx, user_id: int) -> int:
    """Return how many bytes all settings of a user have."""
    size = func.octet_length(_u.settings.cast(Text))
    return int(tx.execute(select(func.coalesce(size, 0)).where(_u.id == user_id)).scalar_one())


def keep_setting(tx: Tx, user_id: int, place: str, key: str, value: str) -> None:
    tx.execute(_KEEP, {"id": user_id, "place": place, "key": key, "value": as_json(value)})
