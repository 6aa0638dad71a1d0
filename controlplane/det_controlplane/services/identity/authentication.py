"""Authenticate callers by the tokens of their sessions."""

import hashlib
from collections.abc import Sequence
from functools import partial

from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.people.roles import ALL, OPEN, Grants, grants_of
from det_controlplane.db.people import sessions
from det_controlplane.db.people.sessions import Holder
from det_controlplane.db.schema.enums import SessionKind
from det_controlplane.services.batching import Ticket
from det_controlplane.services.context import Context
from det_controlplane.services.errors import NotSignedIn, Unready
from det_controlplane.services.principal import AgentPrincipal, NamedPlace, User

# Tokens of agents have a prefix, so one query finds the agent.
AGENT_PREFIX = "agent-"
_ALL_TOKENS = 0
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
        holder = ctx.memory.holders.take(_ALL_TOKENS, hashed, partial(_read_holders, ctx))
    if holder is None:
        raise NotSignedIn(_UNKNOWN)
    if holder.waits_for_agent:
        raise Unready(
            f"allocation {holder.allocation_id}: agent {holder.waits_for_agent} was lost and has to join again first"
        )
    place = NamedPlace(*named, holder.workspace_id) if named and with_roles else None
    return _user(ctx, holder, place)


def users_of(ctx: Context, tokens: Sequence[str]) -> dict[str, User]:
    """Return the holders of those tokens that are good, by one statement."""
    with_roles = ctx.config.authz is Authz.RBAC
    read = sessions.holders_with_roles if with_roles else sessions.holders
    hashed = {token_hash(token): token for token in tokens}
    holders = read(ctx.db, list(hashed), ctx.now())
    return {
        hashed[h]: _user(ctx, holder, None)
        for h, holder in holders.items()
        if not holder.waits_for_agent
    }


def tasks_of(ctx: Context, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], User]:
    """Return tasks by the tokens of an agent and of the task, where both are good and that agent runs it."""
    with_roles = ctx.config.authz is Authz.RBAC
    hashes = {token: token_hash(token) for pair in pairs for token in pair}
    holders = sessions.holders_on_agents(
        ctx.db, [hashes[task] for _, task in pairs], list({hashes[agent] for agent, _ in pairs}),
        ctx.now(), with_roles=with_roles,
    )  # fmt: skip
    users = {h: _user(ctx, holder, None) for h, holder in holders.items()}
    return {
        (agent, task): users[hashes[task]]
        for agent, task in pairs
        if hashes[task] in holders and hashes[agent].hex() in (holders[hashes[task]].runners or "")
    }


def _user(ctx: Context, holder: Holder, place: NamedPlace | None) -> User:
    grants = _grants(holder, with_roles=ctx.config.authz is Authz.RBAC)
    administers = holder.kind is not SessionKind.ACCESS or ctx.config.token.administers
    return User(
        holder.user_id, holder.username,
        # A task of an administrator does not have administrator rights.
        grants is ALL,
        holder.id, holder.allocation_id, holder.task_id, holder.trial_id, holder.experiment_id,
        holder.kind.value, administers, holder.narrow, grants, place, holder.writes,
        pools=holder.pools,
    )  # fmt: skip


def _read_holders(ctx: Context, tickets: Sequence[Ticket[bytes, Holder | None]]) -> None:
    """Read the users of tokens in one batch. Tokens that arrive during a read wait for the next one."""
    holders = sessions.holders(ctx.db, [t.item for t in tickets], ctx.now())
    for ticket in tickets:
        ticket.answer(holders.get(ticket.item))


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
        return AgentPrincipal(agent.id, agent.incarnation, agent.pool, agent.pools)
    user_of(ctx, token)
    raise NotSignedIn("this path is for agents; join first")
