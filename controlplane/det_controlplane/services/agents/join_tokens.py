"""Tokens that agents join with: made by administrators, for a time and a number of agents."""

from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core.numerals import parse_duration
from det_controlplane.core.people.roles import Right
from det_controlplane.db.agents import join_tokens
from det_controlplane.db.engine.database import Tx
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, NotSignedIn
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.principal import User

PREFIX = "join-"
DEFAULT_LIFE = timedelta(hours=24)
_MOST_USES = 1_000_000


def create(
    ctx: Context, caller: User, description: str, lifespan: str, max_uses: int | None
) -> dict[str, Any]:
    """Return the token and its description. The token is shown only this once."""
    require_right(caller, Right.UPDATE_AGENTS, "make tokens that agents join with")
    life = parse_duration(lifespan) if lifespan else DEFAULT_LIFE
    if life is None or life <= timedelta(0):
        raise Invalid(f"lifespan {lifespan!r} must be a length of time such as '90m' or '240h'")
    if max_uses is not None and not 1 <= max_uses <= _MOST_USES:
        raise Invalid(f"maxUses must be between 1 and {_MOST_USES}, not {max_uses}")
    token, now = PREFIX + ctx.random.token(), ctx.now()
    with ctx.db.begin() as tx:
        row = join_tokens.create(
            tx, token_hash=token_hash(token), description=description, user_id=caller.id,
            max_uses=max_uses, created_at=now, expires_at=now + life,
        )  # fmt: skip
        ctx.recorder.add_objects(f"agent-token {row['id']}")
    return {**row, "token": token}


def listed(ctx: Context, caller: User) -> list[dict[str, Any]]:
    require_right(caller, Right.UPDATE_AGENTS, "see tokens that agents join with")
    with ctx.db.autocommit() as tx:
        return join_tokens.listed(tx)


def revoke(ctx: Context, caller: User, token_id: int) -> None:
    """Revoke a token for joining. Joined agents continue until their leases end."""
    require_right(caller, Right.UPDATE_AGENTS, "revoke tokens that agents join with")
    with ctx.db.begin() as tx:
        if not join_tokens.revoke(tx, token_id, ctx.now()):
            raise Missing(f"agent token {token_id} not found: see 'det agent token list'")


def spend(tx: Tx, token: str, now: datetime, *, known_agent: bool, of_deployment: bool) -> None:
    """Count an agent that is new; one that comes again, with its own key, only needs a token that is not revoked.

    The deployment's own token is listed as soon as an agent has joined with it, and revoked like any other."""
    token_id = join_tokens.known(tx, token_hash(token))
    if token_id is None and of_deployment:
        join_tokens.add_of_deployment(tx, token_hash(token), now)
        token_id = join_tokens.known(tx, token_hash(token))
    if token_id is None:
        raise NotSignedIn(
            "the bootstrap token is wrong or revoked; the cluster's operator has the current one"
        )
    if not known_agent and not join_tokens.use(tx, token_id, now):
        raise NotSignedIn(
            "this token has ended or was used up: have an administrator run 'det agent token create'"
        )
