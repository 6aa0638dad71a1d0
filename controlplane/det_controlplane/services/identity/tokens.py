"""Access tokens: long-lived, named, revocable (facts §9.5)."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from det_controlplane.core.durations import parse_duration
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx
from det_controlplane.db.pages import Listing
from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_self

DEFAULT_LIFE = timedelta(days=30)
MAX_LIFE = timedelta(days=30)
FOREVER = "-1"

_TOKEN = f"""json_build_object('id', s.id, 'userId', s.user_id, 'createdAt', {time("s.created_at")},
    'expiry', {time("s.expires_at")}, 'revoked', s.revoked_at IS NOT NULL, 'description', coalesce(s.description, ''),
    'tokenType', 'TOKEN_TYPE_ACCESS_TOKEN')"""
_FROM = "sessions s JOIN users u ON u.id = s.user_id"
_ORDER = {
    "SORT_BY_ID": "s.id", "SORT_BY_USER_ID": "s.user_id", "SORT_BY_EXPIRY": "s.expires_at",
    "SORT_BY_CREATED_AT": "s.created_at", "SORT_BY_REVOKED": "s.revoked_at IS NOT NULL",
    "SORT_BY_DESCRIPTION": "s.description",
}  # fmt: skip
_FILTERS = {
    "kind": "s.kind = cast(:kind AS session_kind)",
    "user_id": "s.user_id = :user_id",
    "username": "u.username = :username",
    "ids": "s.id = ANY(cast(:ids AS bigint[]))",
    "alive_at": "s.revoked_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :alive_at)",
}
_INSERT = text("""
    INSERT INTO sessions (token_hash, kind, user_id, description, created_at, expires_at)
    VALUES (:hash, 'access', :user_id, :description, :now, :expires_at) RETURNING id
""")
_FIND = text(
    f"SELECT s.user_id, s.revoked_at, {_TOKEN} AS shown FROM {_FROM} WHERE s.id = :id AND s.kind = 'access'"
)
_USER = text("SELECT active FROM users WHERE id = :id")
_DESCRIBE = text("UPDATE sessions SET description = :description WHERE id = :id")
_REVOKE = text("UPDATE sessions SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL")


def listed(ctx: Context, caller: User, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    """An administrator sees everybody's, others see their own."""
    given = {"kind": "access", **filters}
    if not caller.admin:
        given["user_id"] = caller.id
    where = [_FILTERS[name] for name in given]
    listing = Listing("tokenInfo", _TOKEN, _FROM, where, sort.sql(_ORDER, "SORT_BY_ID"))
    with ctx.db.begin() as tx:
        return pages.fetch(tx, listing, page, given)


def create(
    ctx: Context, caller: User, user_id: int, lifespan: str, description: str
) -> tuple[str, int]:
    """The token itself is shown this once."""
    require_self(caller, user_id, "create a token for another user")
    token, now = ctx.new_token(), ctx.now()
    with ctx.db.begin() as tx:
        active = tx.execute(_USER, {"id": user_id}).scalar()
        if active is None:
            raise Missing(f"user {user_id} not found")
        if not active:
            raise WrongState(f"user {user_id} is not active: activate it first")
        token_id = tx.execute(
            _INSERT,
            {
                "hash": token_hash(token), "user_id": user_id, "description": description or None,
                "now": now, "expires_at": _expiry(now, lifespan),
            },
        ).scalar_one()  # fmt: skip
    return token, int(token_id)


def edit(
    ctx: Context, caller: User, token_id: int, description: str | None, revoke: bool
) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        row = _find(tx, token_id)
        require_self(caller, row.user_id, "edit another user's token")
        if row.revoked_at is not None:
            raise WrongState(f"token {token_id} is revoked: create a new one")
        if description is not None:
            tx.execute(_DESCRIBE, {"id": token_id, "description": description})
        if revoke:
            tx.execute(_REVOKE, {"id": token_id, "now": ctx.now()})
        shown: dict[str, Any] = _find(tx, token_id).shown
    return shown


def _find(tx: Tx, token_id: int) -> Any:
    row = tx.execute(_FIND, {"id": token_id}).first()
    if row is None:
        raise Missing(f"token {token_id} not found: see 'det token list --show-inactive'")
    return row


def _expiry(now: datetime, lifespan: str) -> datetime | None:
    if not lifespan:
        return now + DEFAULT_LIFE
    if lifespan == FOREVER:
        return None
    life = parse_duration(lifespan)
    if life is None or life <= timedelta(0):
        raise Invalid(f"lifespan {lifespan!r} must be a length of time such as '240h', or '-1'")
    if life > MAX_LIFE:
        raise Invalid(f"lifespan {lifespan!r} is more than the limit of {MAX_LIFE.days} days")
    return now + life
