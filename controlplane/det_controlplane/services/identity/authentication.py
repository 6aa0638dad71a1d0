"""Authenticate callers by password, token and session."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.roles import ALL, OPEN, Grants, grants_of
from det_controlplane.db import sessions, sign_in_failures
from det_controlplane.db.engine import Tx
from det_controlplane.db.schema.enums import SessionKind
from det_controlplane.db.sessions import Holder
from det_controlplane.db.sign_in_failures import AttemptLimits
from det_controlplane.services.audit import failures, recording
from det_controlplane.services.batching import Ticket
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, NotSignedIn
from det_controlplane.services.identity.principal import AgentPrincipal, NamedPlace, User

# Agents' tokens show what they are: one query finds their holder.
AGENT_PREFIX = "agent-"
SESSION_LIFE = timedelta(days=7)
# Stock clients send the password hashed with this salt; what we store is a scrypt hash of that.
CLIENT_SALT = "GubPEmmotfiK9TMD6Zdw"
# Attempts at one account from one address: some are free, then each waits twice as long as the one before.
FREE_ATTEMPTS = 5
LONGEST_WAIT_S = 300.0
FAILURES_FORGOTTEN = timedelta(hours=1)
_PATIENCE = AttemptLimits(FREE_ATTEMPTS, LONGEST_WAIT_S, FAILURES_FORGOTTEN)
# With an address, whatever the names: many people may share one, so that it is patient, and never waits long.
_PATIENCE_WITH_ADDRESS = AttemptLimits(300, 2.0, FAILURES_FORGOTTEN)
_ANY_NAME = "*%Y-%m-%dT%H"  # in an hour: what is counted in another does not add up
_LONGEST_NAME = 200
_ALL_TOKENS = 0
SCRYPT = {"n": 2**14, "r": 8, "p": 1}
_TOO_MANY = "too many failed sign-ins: wait a little, longer after each further attempt"
_UNKNOWN = "the token is unknown or has expired: sign in with 'det user login'"


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def user_of(ctx: Context, token: str, named: tuple[str, str] | None = None) -> User:
    """Return the holder of a token; the message of a refusal never says which part was wrong."""
    if token.startswith(AGENT_PREFIX):
        agent_of(ctx, token)
        raise NotSignedIn("this path is for users; sign in first")
    if not token:
        raise NotSignedIn("no token: sign in with 'det user login'")
    with_roles = ctx.config.authz is Authz.RBAC
    hashed, now = token_hash(token), ctx.now()
    if with_roles:
        holder = sessions.holder_with_roles(ctx.db, hashed, now, named)
    else:
        holder = ctx.holders.take(_ALL_TOKENS, hashed, partial(_read_holders, ctx))
    if holder is None:
        raise NotSignedIn(_UNKNOWN)
    place = NamedPlace(*named, holder.workspace_id) if named and with_roles else None
    return _user(ctx, holder, place)


def users_of(ctx: Context, tokens: Sequence[str]) -> dict[str, User]:
    """Return the holders of those tokens that are good, by one statement."""
    with_roles = ctx.config.authz is Authz.RBAC
    read = sessions.holders_with_roles if with_roles else sessions.holders
    hashed = {token_hash(token): token for token in tokens}
    found = read(ctx.db, list(hashed), ctx.now())
    return {hashed[h]: _user(ctx, holder, None) for h, holder in found.items()}


def tasks_of(ctx: Context, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], User]:
    """Return tasks by the tokens of an agent and of the task, where both are good and that agent runs it."""
    with_roles = ctx.config.authz is Authz.RBAC
    hashes = {token: token_hash(token) for pair in pairs for token in pair}
    found = sessions.holders_on_agents(
        ctx.db, [hashes[task] for _, task in pairs], list({hashes[agent] for agent, _ in pairs}),
        ctx.now(), with_roles=with_roles,
    )  # fmt: skip
    users = {h: _user(ctx, holder, None) for h, holder in found.items()}
    return {
        (agent, task): users[hashes[task]]
        for agent, task in pairs
        if hashes[task] in found and hashes[agent].hex() in (found[hashes[task]].runners or ())
    }


def _user(ctx: Context, holder: Holder, place: NamedPlace | None) -> User:
    grants = _grants(holder, with_roles=ctx.config.authz is Authz.RBAC)
    administers = holder.kind is not SessionKind.ACCESS or ctx.config.token.administers
    return User(
        holder.user_id, holder.username,
        # An administrator's task is no administrator.
        grants is ALL,
        holder.id, holder.allocation_id, holder.task_id, holder.trial_id, holder.experiment_id,
        holder.kind.value, administers, holder.narrow, grants, place,
    )  # fmt: skip


def _read_holders(ctx: Context, tickets: Sequence[Ticket[bytes, Holder | None]]) -> None:
    """Read the holders of tokens whose requests came while others were being read: never from what was read before."""
    found = sessions.holders(ctx.db, [t.item for t in tickets], ctx.now())
    for ticket in tickets:
        ticket.answer(found.get(ticket.item))


def _grants(holder: Holder, *, with_roles: bool) -> Grants:
    is_task = holder.allocation_id is not None
    if not with_roles:
        return ALL if holder.admin and not is_task else OPEN
    assigned = tuple((role, workspace) for role, workspace in holder.roles or ())
    grants = grants_of(assigned, admin=holder.admin)
    return grants.for_task() if is_task else grants


def agent_of(ctx: Context, token: str) -> AgentPrincipal:
    if token.startswith(AGENT_PREFIX):
        agent = sessions.agent_holder(ctx.db, token_hash(token))
        if agent is None:
            raise NotSignedIn(_UNKNOWN)
        return AgentPrincipal(agent.id, agent.incarnation, agent.pool)
    user_of(ctx, token)
    raise NotSignedIn("this path is for agents; join first")


def login(
    ctx: Context, username: str, password: str, is_hashed: bool, address: str = ""
) -> tuple[str, int]:
    """Check a password, return a new token and the user's id."""
    now = ctx.now()
    # The same steps for every name: neither the answer nor its time tells whether there is such a user.
    is_counted = _count_for_address(ctx, username if password else "", address, now)
    # An empty password is no guess: Determined's client sends one by itself, before it asks for another.
    attempts = count_attempt(ctx, username, address, now) if password else 0
    with ctx.db.begin() as tx:
        row = sessions.sign_in(tx, username)
    sent = password if is_hashed else client_hash(password)
    stored = None if row is None or row.remote else row.password_hash
    if not password_matches(stored, sent) or row is None:
        if attempts == FREE_ATTEMPTS:
            failures.record(ctx, username[:_LONGEST_NAME], address, attempts)
        raise NotSignedIn("invalid credentials")
    with ctx.db.begin() as tx:
        if is_counted:
            # Only itself: an own account must not wipe out the guesses at others.
            sign_in_failures.take_back(tx, now.strftime(_ANY_NAME), address)
        sign_in_failures.forget(tx, username[:_LONGEST_NAME], address)
        if not row.active:
            raise Forbidden("user is not active")
        sessions.signed_in(tx, row.user_id, now)
        token = new_session(ctx, tx, row.user_id, now + SESSION_LIFE)
    return token, row.user_id


def count_attempt(ctx: Context, username: str, address: str, now: datetime) -> int:
    """Let attempts at one account from one address wait, longer each time; others are not held up."""
    with ctx.db.begin() as tx:
        attempts = sign_in_failures.attempt(tx, username[:_LONGEST_NAME], address, now, _PATIENCE)
    if not attempts:
        raise Forbidden(_TOO_MANY)
    return attempts


def _count_for_address(ctx: Context, username: str, address: str, now: datetime) -> bool:
    """Let attempts from one address wait after very many, also those without a password: each costs a derivation.

    People who have signed in from there before, and have not failed since, are not held up by others, nor counted."""
    with ctx.db.begin() as tx:
        name = now.strftime(_ANY_NAME)
        if sign_in_failures.attempt(tx, name, address, now, _PATIENCE_WITH_ADDRESS):
            return True
        if not sign_in_failures.is_at_home(tx, username[:_LONGEST_NAME], address):
            raise Forbidden(_TOO_MANY)
        return False


def refuse_held_up(ctx: Context, username: str, address: str, now: datetime) -> None:
    """Refuse an attempt that comes too soon after failed ones, without counting it."""
    with ctx.db.autocommit() as tx:
        if sign_in_failures.held_up(tx, username[:_LONGEST_NAME], address, now, _PATIENCE):
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
    token = ctx.new_token()
    recording.signed_in(user_id)
    now, origin = ctx.now(), recording.origin()
    sessions.create(
        tx, SessionKind.USER, user_id, token_hash(token), now, expires_at, origin=origin
    )
    return token


def logout(ctx: Context, user: User) -> None:
    with ctx.db.begin() as tx:
        sessions.revoke(tx, user.session_id, ctx.now())


def client_hash(password: str) -> str:
    """Return the hash that a client of Determined sends for a password. An empty one is sent empty."""
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
    n, r, p = SCRYPT["n"], SCRYPT["r"], SCRYPT["p"]
    return hashlib.scrypt(client_hashed.encode(), salt=salt, n=n, r=r, p=p, dklen=32)
