"""Who calls: passwords, tokens, sessions."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from sqlalchemy import text

from det_controlplane.db.engine import Tx
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, NotSignedIn
from det_controlplane.services.identity.principal import AgentPrincipal, User

# Agents' tokens show what they are: one query finds their holder.
AGENT_PREFIX = "agent-"
SESSION_LIFE = timedelta(days=7)
# Facts §2.2: stock clients send the password hashed with this salt; what we store is a scrypt hash of that.
CLIENT_SALT = "GubPEmmotfiK9TMD6Zdw"
MAX_FAILED_LOGINS = 10
LOCK_TIME = timedelta(minutes=1)
_SCRYPT = {"n": 2**14, "r": 8, "p": 1}
_UNKNOWN = "the token is unknown or has expired: sign in with 'det user login'"

_SESSION = text("""
    SELECT s.id AS session_id, s.allocation_id, u.id, u.username, u.admin
    FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE s.token_hash = :hash AND s.revoked_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :now) AND u.active
""")
_AGENT = text(
    "SELECT id, incarnation::text, pool FROM agents WHERE token_hash = :hash AND state <> 'LOST'"
)
_LOGIN = text("""
    SELECT id, password_hash, active, remote, locked_until FROM users WHERE username = :username
""")
_FAILED = text("""
    UPDATE users SET failed_logins = failed_logins + 1,
        locked_until = CASE WHEN failed_logins + 1 >= :limit THEN cast(:until AS timestamptz) END
    WHERE id = :id
""")
_SUCCEEDED = text(
    "UPDATE users SET failed_logins = 0, locked_until = NULL, last_auth_at = :now WHERE id = :id"
)
_INSERT_SESSION = text("""
    INSERT INTO sessions (token_hash, kind, user_id, allocation_id, description, created_at, expires_at)
    VALUES (:hash, cast(:kind AS session_kind), :user_id, :allocation_id, :description, :now, :expires_at)
    RETURNING id
""")
_REVOKE = text("UPDATE sessions SET revoked_at = :now WHERE id = :id")


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def user_of(ctx: Context, token: str) -> User:
    """The holder of a token; the message of a refusal never says which part was wrong."""
    if token.startswith(AGENT_PREFIX):
        agent_of(ctx, token)
        raise NotSignedIn("this path is for users; sign in first")
    if not token:
        raise NotSignedIn("no token: sign in with 'det user login'")
    for row in ctx.db.read(_SESSION, {"hash": token_hash(token), "now": ctx.now()}):
        return User(row.id, row.username, row.admin, row.session_id, row.allocation_id)
    raise NotSignedIn(_UNKNOWN)


def agent_of(ctx: Context, token: str) -> AgentPrincipal:
    if token.startswith(AGENT_PREFIX):
        for agent in ctx.db.read(_AGENT, {"hash": token_hash(token)}):
            return AgentPrincipal(agent.id, agent.incarnation, agent.pool)
        raise NotSignedIn(_UNKNOWN)
    user_of(ctx, token)
    raise NotSignedIn("this path is for agents; join first")


def login(ctx: Context, username: str, password: str, is_hashed: bool) -> tuple[str, int]:
    """Check a password, return a new token and the user's id."""
    now = ctx.now()
    with ctx.db.begin() as tx:
        row = tx.execute(_LOGIN, {"username": username}).first()
    if row is not None and row.locked_until is not None and row.locked_until > now:
        raise Forbidden("too many failed sign-ins: try again in a minute")
    sent = password if is_hashed else client_hash(password)
    if row is None or not password_matches(row.password_hash, sent):
        _count_failure(ctx, None if row is None else row.id, now)
        raise NotSignedIn("invalid credentials")
    if not row.active:
        raise Forbidden("user is not active")
    with ctx.db.begin() as tx:
        tx.execute(_SUCCEEDED, {"id": row.id, "now": now})
        token = new_session(ctx, tx, "user", row.id, now + SESSION_LIFE)
    return token, int(row.id)


def new_session(
    ctx: Context,
    tx: Tx,
    kind: str,
    user_id: int,
    expires_at: datetime | None,
    *,
    allocation_id: str | None = None,
    description: str | None = None,
) -> str:
    """A new bearer token; only its hash stays here."""
    token = ctx.new_token()
    tx.execute(
        _INSERT_SESSION,
        {
            "hash": token_hash(token), "kind": kind, "user_id": user_id, "now": ctx.now(),
            "allocation_id": allocation_id, "description": description, "expires_at": expires_at,
        },
    )  # fmt: skip
    return token


def logout(ctx: Context, user: User) -> None:
    with ctx.db.begin() as tx:
        tx.execute(_REVOKE, {"id": user.session_id, "now": ctx.now()})


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
        tx.execute(_FAILED, {"id": user_id, "limit": MAX_FAILED_LOGINS, "until": now + LOCK_TIME})
