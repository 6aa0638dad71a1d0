"""Sign users in by password, let attempts wait after failed ones, and make, list and end sessions."""

from datetime import datetime, timedelta
from typing import Any

from det_controlplane.db.cluster import audit
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.people import sessions, sign_in_failures, users
from det_controlplane.db.people.sign_in_failures import AttemptLimits
from det_controlplane.db.schema.enums import SessionKind
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing, NotSignedIn, require
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.identity.passwords import (
    client_hash,
    is_of_determined,
    password_matches,
    stored_hash,
)
from det_controlplane.services.identity.rights import require_self, require_session, require_sign_in
from det_controlplane.services.principal import User

SESSION_LIFE = timedelta(days=7)
# Attempts at one account from one address: some are free, then each waits twice as long as the one before.
FREE_ATTEMPTS = 5
LONGEST_WAIT_S = 300.0
FAILURES_FORGOTTEN = timedelta(hours=1)
_PATIENCE = AttemptLimits(FREE_ATTEMPTS, LONGEST_WAIT_S, FAILURES_FORGOTTEN)
# For an address and any names. Many users may share an address, so the limit is high and the delay short.
_PATIENCE_WITH_ADDRESS = AttemptLimits(300, 2.0, FAILURES_FORGOTTEN)
_ANY_NAME = "*%Y-%m-%dT%H"  # within an hour; counts of different hours are not added
_LONGEST_NAME = 200
_TOO_MANY = "too many failed sign-ins: wait a little, longer after each further attempt"

REFUSAL_ACTION = "auth.refused"
# Rows stay for a month at least: strangers must not fill the disk with them.
MOST_REFUSALS = 100
_REFUSALS_WITHIN = timedelta(hours=1)

# Programs that sign in each time they run leave many; the oldest end by themselves.
_MOST_SESSIONS = 500


def login(
    ctx: Context, username: str, password: str, is_hashed: bool, address: str = ""
) -> tuple[str, int]:
    """Check a password, return a new token and the user's id."""
    now = ctx.now()
    # The steps are the same for every name, so that neither the answer nor its time reveals whether the user exists.
    is_counted = _count_for_address(ctx, username if password else "", address, now)
    # An empty password does not count as a guess, because Determined's client sends one before it asks for a password.
    attempts = count_attempt(ctx, username, address, now) if password else 0
    with ctx.db.begin() as tx:
        row = sessions.sign_in(tx, username)
    digest = password if is_hashed else client_hash(password)
    expected = None if row is None or row.remote else row.password_hash
    if not password_matches(expected, digest) or row is None:
        if attempts == FREE_ATTEMPTS:
            record_refusal(ctx, username[:_LONGEST_NAME], address, attempts)
        raise NotSignedIn("invalid credentials")
    with ctx.db.begin() as tx:
        if is_counted:
            # Only itself: an own account must not wipe out the guesses at others.
            sign_in_failures.uncount(tx, now.strftime(_ANY_NAME), address)
        sign_in_failures.forget(tx, username[:_LONGEST_NAME], address)
        if not row.active:
            raise Forbidden("user is not active")
        if is_of_determined(expected):
            users.change(tx, row.user_id, password_hash=stored_hash(digest))
        sessions.signed_in(tx, row.user_id, now)
        token = new_session(ctx, tx, row.user_id, now + SESSION_LIFE)
    return token, row.user_id


def require_password(ctx: Context, user: User, current: str) -> None:
    """Refuse a wrong password of the caller. Wrong passwords count and wait as failed sign-ins do."""
    address = ctx.recorder.origin().address
    count_attempt(ctx, user.username, address, ctx.now())
    with ctx.db.autocommit() as tx:
        row = sessions.sign_in(tx, user.username)
    if row is None or row.remote:
        return  # The use case refuses passwords of remote users.
    if not password_matches(row.password_hash, current):
        raise Forbidden(
            "the current password is missing or wrong, and nothing was changed: send it as currentPassword"
        )
    forget_attempts(ctx, user.username, address)


def count_attempt(ctx: Context, username: str, address: str, now: datetime) -> int:
    """Delay attempts at one account from one address, longer each time. Other attempts have no delay."""
    with ctx.db.begin() as tx:
        attempts = sign_in_failures.attempt(tx, username[:_LONGEST_NAME], address, now, _PATIENCE)
    if not attempts:
        raise Forbidden(_TOO_MANY)
    return attempts


def _count_for_address(ctx: Context, username: str, address: str, now: datetime) -> bool:
    """Delay further attempts from an address after very many failures, because each attempt costs a key derivation.

    Users who signed in from the address before and have not failed since are not delayed or counted."""
    with ctx.db.begin() as tx:
        name = now.strftime(_ANY_NAME)
        if sign_in_failures.attempt(tx, name, address, now, _PATIENCE_WITH_ADDRESS):
            return True
        if not sign_in_failures.is_at_home(tx, username[:_LONGEST_NAME], address):
            raise Forbidden(_TOO_MANY)
        return False


def refuse_early_attempt(ctx: Context, username: str, address: str, now: datetime) -> None:
    """Refuse an attempt that comes too soon after failed ones, without counting it."""
    with ctx.db.autocommit() as tx:
        if sign_in_failures.is_too_early(tx, username[:_LONGEST_NAME], address, now, _PATIENCE):
            raise Forbidden(_TOO_MANY)


def forget_attempts(ctx: Context, username: str, address: str) -> None:
    with ctx.db.begin() as tx:
        sign_in_failures.forget(tx, username[:_LONGEST_NAME], address)


def new_session(
    ctx: Context,
    tx: Tx,
    user_id: int,
    expires_at: datetime | None,
) -> str:
    """Return a new bearer token of a user; only its hash stays here."""
    token = ctx.random.token()
    ctx.recorder.set_signed_in(user_id)
    now, origin = ctx.now(), ctx.recorder.origin()
    sessions.create(
        tx, SessionKind.USER, user_id, token_hash(token), now, expires_at, origin=origin
    )
    return token


def logout(ctx: Context, user: User) -> None:
    with ctx.db.begin() as tx:
        sessions.revoke(tx, user.session_id, ctx.now())


def record_refusal(ctx: Context, username: str, address: str, attempts: int) -> None:
    """Record in the audit log how many attempts at a name failed. The user may not exist.

    The log has a bounded number of rows for each stranger."""
    now = ctx.now()
    with ctx.db.begin() as tx:
        audit.add_refusal(
            tx, since=now - _REFUSALS_WITHIN, most=MOST_REFUSALS, at=now, username=username, address=address, action=REFUSAL_ACTION,
            attempts=attempts,
        )  # fmt: skip


def list_sessions(ctx: Context, caller: User, user_id: int) -> list[dict[str, Any]]:
    """Return the sessions of a person, newest first, with the caller's own marked."""
    require_self(caller, user_id, "see where another user is signed in")
    with ctx.db.autocommit() as tx:
        require(users.one(tx, user_id), f"user {user_id}")
        rows = sessions.open_of_user(tx, user_id, ctx.now(), _MOST_SESSIONS)
    return [{**row, "current": row["id"] == caller.session_id} for row in rows]


def _require_ending_sessions(caller: User, user_id: int) -> None:
    """Require a sign-in to end sessions: a stolen access token would keep its user from revoking it."""
    require_self(caller, user_id, "sign another user out")
    if caller.id == user_id:
        require_session(caller, "sign its own user out")
    require_sign_in(caller, "sign others out")


def end_session(ctx: Context, caller: User, user_id: int, session_id: int) -> None:
    _require_ending_sessions(caller, user_id)
    with ctx.db.begin() as tx:
        if not sessions.end_of_user(tx, user_id, session_id, ctx.now()):
            raise Missing(
                f"user {user_id} has no session {session_id}: see 'det user list-sessions'"
            )


def end_other_sessions(ctx: Context, caller: User, user_id: int) -> int:
    """End every session of a person but the caller's own; return how many that were."""
    _require_ending_sessions(caller, user_id)
    with ctx.db.begin() as tx:
        require(users.one(tx, user_id), f"user {user_id}")
        return sessions.end_others_of_user(tx, user_id, caller.session_id, ctx.now())
