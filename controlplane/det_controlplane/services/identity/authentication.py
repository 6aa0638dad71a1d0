"""Who calls: passwords, tokens, sessions."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from det_controlplane.db import sessions
from det_controlplane.db.engine import Tx
from det_controlplane.db.schema.enums import SessionKind
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, NotSignedIn
from det_controlplane.services.identity.principal import AgentPrincipal, User

# Agents' tokens show what they are: one query finds their holder.
AGENT_PREFIX = "agent-"
SESSION_LIFE = timedelta(days=7)
# Stock clients send the password hashed with this salt; what we store is a scrypt hash of that.
CLIENT_SALT = "GubPEmmotfiK9TMD6Zdw"
MAX_FAILED_LOGINS = 10
LOCK_TIME = timedelta(minutes=1)
_SCRYPT = {"n": 2**14, "r": 8, "p": 1}
_UNKNOWN = "the token is unknown or has expired: sign in with 'det user login'"


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def user_of(ctx: Context, token: str) -> User:
    """The holder of a token; the message of a refusal never says which part was wrong."""
    if token.startswith(AGENT_PREFIX):
        agent_of(ctx, token)
        raise NotSignedIn("this path is for users; sign in first")
    if not token:
        raise NotSignedIn("no token: sign in with 'det user login'")
    holder = sessions.holder(ctx.db, token_hash(token), ctx.now())
    if holder is None:
        raise NotSignedIn(_UNKNOWN)
    return User(
        holder.user_id, holder.username,
        # An administrator's task is no administrator.
        holder.admin and holder.allocation_id is None,
        holder.id, holder.allocation_id, holder.task_id, holder.trial_id, holder.experiment_id, holder.narrow,
    )  # fmt: skip


def agent_of(ctx: Context, token: str) -> AgentPrincipal:
    if token.startswith(AGENT_PREFIX):
        agent = sessions.agent_holder(ctx.db, token_hash(token))
        if agent is None:
            raise NotSignedIn(_UNKNOWN)
        return AgentPrincipal(agent.id, agent.incarnation, agent.pool)
    user_of(ctx, token)
    raise NotSignedIn("this path is for agents; join first")


def login(ctx: Context, username: str, password: str, is_hashed: bool) -> tuple[str, int]:
    """Check a password, return a new token and the user's id."""
    now = ctx.now()
    with ctx.db.begin() as tx:
        row = sessions.sign_in(tx, username)
    if row is not None and row.locked_until is not None and row.locked_until > now:
        raise Forbidden("too many failed sign-ins: try again in a minute")
    sent = password if is_hashed else client_hash(password)
    if row is None or not password_matches(row.password_hash, sent):
        _count_failure(ctx, None if row is None else row.user_id, now)
        raise NotSignedIn("invalid credentials")
    if not row.active:
        raise Forbidden("user is not active")
    with ctx.db.begin() as tx:
        sessions.signed_in(tx, row.user_id, now)
        token = new_session(ctx, tx, SessionKind.USER, row.user_id, now + SESSION_LIFE)
    return token, row.user_id


def new_session(
    ctx: Context,
    tx: Tx,
    kind: SessionKind,
    user_id: int,
    expires_at: datetime | None,
) -> str:
    """Return a new bearer token; only its hash stays here."""
    token = ctx.new_token()
    sessions.create(tx, kind, user_id, token_hash(token), ctx.now(), expires_at)
    return token


def logout(ctx: Context, user: User) -> None:
    with ctx.db.begin() as tx:
        sessions.revoke(tx, user.session_id, ctx.now())


def client_hash(password: str) -> str:
    """What a stock client would send. An empty password is sent empty."""
    return hashlib.sha512((CLIENT_SALT + password).encode()).hexdigest() if password else ""


def stored_hash(client_hashed: str) -> str:
    salt = secrets.token_bytes(16)
    return f"scrypt${salt.hex()}${_derive(client_hashed, salt).hex()}"


def password_matches(stored: str | None, client_hashed: str) -> bool:
    if stored is None:
        # Takes as long as a real check, so that names cannot be told from passwords.
        _derive(client_hashed, b"0" * 16)
        return False
    _, salt, digest = stored.split("$")
    return hmac.compare_digest(_derive(client_hashed, bytes.fromhex(salt)).hex(), digest)


def _derive(client_hashed: str, salt: bytes) -> bytes:
    n, r, p = _SCRYPT["n"], _SCRYPT["r"], _SCRYPT["p"]
    return hashlib.scrypt(client_hashed.encode(), salt=salt, n=n, r=r, p=p, dklen=32)


def _count_failure(ctx: Context, user_id: int | None, now: datetime) -> None:
    if user_id is None:
        return
    with ctx.db.begin() as tx:
        sessions.count_failed_sign_in(tx, user_id, MAX_FAILED_LOGINS, now + LOCK_TIME)
