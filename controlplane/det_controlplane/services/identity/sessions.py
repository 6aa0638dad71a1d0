"""List and end the sessions of a user."""

from typing import Any

from det_controlplane.db.people import sessions, users
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, require
from det_controlplane.services.identity.rights import require_self, require_session, require_sign_in
from det_controlplane.services.principal import User

# Programs that sign in each time they run leave many; the oldest end by themselves.
_MOST = 500


def listed(ctx: Context, caller: User, user_id: int) -> list[dict[str, Any]]:
    """Return the sessions of a person, newest first, with the caller's own marked."""
    require_self(caller, user_id, "see where another user is signed in")
    with ctx.db.autocommit() as tx:
        require(users.one(tx, user_id), f"user {user_id}")
        rows = sessions.open_of_user(tx, user_id, ctx.now(), _MOST)
    return [{**row, "current": row["id"] == caller.session_id} for row in rows]


def _require_end(caller: User, user_id: int) -> None:
    """Require a sign-in to end sessions: a stolen access token would keep its user from revoking it."""
    require_self(caller, user_id, "sign another user out")
    if caller.id == user_id:
        require_session(caller, "sign its own user out")
    require_sign_in(caller, "sign others out")


def end(ctx: Context, caller: User, user_id: int, session_id: int) -> None:
    _require_end(caller, user_id)
    with ctx.db.begin() as tx:
        if not sessions.end_of_user(tx, user_id, session_id, ctx.now()):
            raise Missing(
                f"user {user_id} has no session {session_id}: see 'det user list-sessions'"
            )


def end_others(ctx: Context, caller: User, user_id: int) -> int:
    """End every session of a person but the caller's own; return how many that were."""
    _require_end(caller, user_id)
    with ctx.db.begin() as tx:
        require(users.one(tx, user_id), f"user {user_id}")
        return sessions.end_others_of_user(tx, user_id, caller.session_id, ctx.now())
