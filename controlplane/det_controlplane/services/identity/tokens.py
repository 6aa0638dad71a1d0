"""Access tokens: long-lived, named, revocable."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core.config.sign_in import AccessTokens
from det_controlplane.core.numerals import LONGEST_DURATION, is_too_long, parse_duration
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.people import sessions
from det_controlplane.db.people.sessions import AccessToken
from det_controlplane.db.schema.enums import SessionKind
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.identity.rights import (
    require_admin,
    require_self,
    require_session,
    require_sign_in,
)
from det_controlplane.services.principal import User

FOREVER = "-1"
_MORE = "an administrator may let tokens last longer by security.token.max_lifespan_days"


def listed(
    ctx: Context, caller: User, page: Page, sort: Sort, filters: dict[str, Any]
) -> Iterator[str]:
    """List tokens: an administrator sees everybody's, others see their own."""
    allowed_filters = filters if caller.admin else {**filters, "user_id": caller.id}
    return sessions.access_tokens(ctx.db, page, sort, allowed_filters)


def create(
    ctx: Context, caller: User, user_id: int, lifespan: str, description: str
) -> tuple[str, int]:
    """Create a token, which is shown this once."""
    require_self(caller, user_id, "create a token for another user")
    require_session(caller, "create tokens")
    lives = ctx.config.token
    if lifespan == FOREVER and lives.longest is not None:
        _require_admin_for_endless(caller, lives.longest)
    token, now = ctx.random.token(), ctx.now()
    with ctx.db.begin() as tx:
        active = sessions.is_active_user(tx, user_id)
        if active is None:
            raise Missing(f"user {user_id} not found")
        if not active:
            raise WrongState(f"user {user_id} is not active: activate it first")
        token_id = sessions.create(
            tx, SessionKind.ACCESS, user_id, token_hash(token), now, _expiry(now, lifespan, lives),
            description=description or None,
        )  # fmt: skip
        ctx.recorder.add_objects(f"token {token_id}")
    return token, token_id


def edit(
    ctx: Context, caller: User, token_id: int, description: str | None, revoke: bool
) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        row = _find(tx, token_id)
        require_self(caller, row.user_id, "edit another user's token")
        if row.user_id != caller.id:
            require_sign_in(caller, "edit tokens of others")
        elif revoke and token_id != caller.session_id:
            require_session(caller, "revoke other tokens of its user")
        if row.revoked:
            raise WrongState(f"token {token_id} is revoked: create a new one")
        if description is not None:
            sessions.describe(tx, token_id, description)
        if revoke:
            sessions.revoke(tx, token_id, ctx.now())
        return _find(tx, token_id).shown


def _require_admin_for_endless(caller: User, longest: timedelta) -> None:
    hours = longest // timedelta(hours=1)
    require_admin(
        caller, "create a token that never expires", f"name a lifespan up to '{hours}h'; {_MORE}"
    )


def _find(tx: Tx, token_id: int) -> AccessToken:
    row = sessions.access_token(tx, token_id)
    if row is None:
        raise Missing(f"token {token_id} not found: see 'det token list --show-inactive'")
    return row


def _expiry(now: datetime, lifespan: str, lives: AccessTokens) -> datetime | None:
    if not lifespan:
        return None if lives.default is None else now + lives.default
    if lifespan == FOREVER:
        return None
    life, longest = parse_duration(lifespan), lives.longest or LONGEST_DURATION
    if is_too_long(lifespan) or (life is not None and life > longest):
        raise Invalid(
            f"lifespan {lifespan!r} is more than the limit of {longest.days} days: ask for less; {_MORE}"
        )
    if life is None or life <= timedelta(0):
        raise Invalid(f"lifespan {lifespan!r} must be a length of time such as '240h', or '-1'")
    return now + life
