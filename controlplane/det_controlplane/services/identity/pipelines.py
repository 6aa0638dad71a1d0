"""Sign in pipelines by the token that their CI service gives them: no secret is stored anywhere."""

import logging
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core.config.pipelines import PipelineTrust
from det_controlplane.db.people import sessions
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import IssuersBusy, NotProven
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Busy, Forbidden, NotSignedIn, Unready
from det_controlplane.services.identity.sign_in import new_session

log = logging.getLogger("det.identity")
# Claims that identify pipelines at GitHub and GitLab. Refusals show them.
_SHOWN_CLAIMS = ("sub", "repository", "project_path", "ref", "environment", "workflow")


def sign_in(ctx: Context, token: str) -> tuple[str, int, datetime]:
    """Exchange a pipeline's token for a session; return it, the user's id and when it ends."""
    claims = _verify_token(ctx, token)
    trust = next((t for t in _of_issuer(ctx, claims) if t.admits(claims)), None)
    if trust is None:
        description = ", ".join(
            f"{name} {claims[name]!r}" for name in _SHOWN_CLAIMS if name in claims
        )
        raise Forbidden(
            f"no entry of `pipelines` in the cluster's configuration admits {description}"
        )
    now = ctx.now()
    expires_at = now + timedelta(seconds=trust.session)
    with ctx.db.begin() as tx:
        user = sessions.sign_in(tx, trust.user)
        if user is None or not user.active:
            raise Forbidden(f"user {trust.user!r} does not exist or is not active: create it")
        sessions.signed_in(tx, user.user_id, now)
        session_token = new_session(ctx, tx, user.user_id, expires_at)
    log.info("the pipeline %s signed in as %s", claims.get("sub"), trust.user)
    return session_token, user.user_id, expires_at


def audience_of(ctx: Context, trust: PipelineTrust) -> str:
    return trust.audience or f"determined:{ctx.cluster_id}"


def _verify_token(ctx: Context, token: str) -> Mapping[str, Any]:
    if not ctx.config.pipelines or ctx.verifiers.tokens is None:
        raise NotSignedIn("this cluster admits no pipelines: `pipelines` in its configuration does")
    trusted: dict[str, set[str]] = {}
    for trust in ctx.config.pipelines:
        trusted.setdefault(trust.issuer, set()).add(audience_of(ctx, trust))
    try:
        return ctx.verifiers.tokens.verified(token, trusted)
    except NotProven as e:
        raise NotSignedIn(str(e)) from e
    except IssuersBusy as e:
        raise Busy(f"the keys of the token's issuer are being read for others: {e}") from e
    except Unreachable as e:
        raise Unready(f"the keys of the token's issuer cannot be read: {e}") from e


def _of_issuer(ctx: Context, claims: Mapping[str, Any]) -> list[PipelineTrust]:
    issuer, audience = str(claims["iss"]).rstrip("/"), claims["aud"]
    audiences: Collection[str] = [audience] if isinstance(audience, str) else audience
    return [
        trust
        for trust in ctx.config.pipelines
        if trust.issuer == issuer and audience_of(ctx, trust) in audiences
    ]
