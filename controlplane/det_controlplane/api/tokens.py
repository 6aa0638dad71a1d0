"""Access tokens."""

from dataclasses import dataclass, field

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import Answer, Request, json_parts, json_response
from det_controlplane.api.listing import ListQuery, filters_of
from det_controlplane.api.router import get, patch, post
from det_controlplane.core.people.permissions import TaskRule, require
from det_controlplane.services.context import Context
from det_controlplane.services.identity import tokens


@dataclass(frozen=True)
class TokenQuery(ListQuery):
    username: str = ""
    token_ids: list[int] = field(default_factory=list)
    show_inactive: bool = False


@dataclass(frozen=True)
class NewToken:
    user_id: int = 0
    lifespan: str = ""
    description: str = ""


@dataclass(frozen=True)
class TokenChanges:
    description: str | None = None
    set_revoked: bool = False


def list_tokens(ctx: Context, request: Request, query: TokenQuery) -> Answer:
    filters = filters_of(
        username=query.username,
        ids=query.token_ids,
        alive_at=None if query.show_inactive else ctx.now(),
    )
    return json_parts(tokens.listed(ctx, user_of(request), query.page(), query.sort(), filters))


def create_token(ctx: Context, request: Request, body: NewToken) -> Answer:
    caller = user_of(request)
    user_id = body.user_id or caller.id
    token, token_id = tokens.create(ctx, caller, user_id, body.lifespan, body.description)
    return json_response({"token": token, "tokenId": token_id})


def edit_token(ctx: Context, request: Request, body: TokenChanges) -> Answer:
    info = tokens.edit(
        ctx,
        user_of(request),
        request.id("tokenId"),
        body.description,
        body.set_revoked,
    )
    return json_response({"tokenInfo": info})


_T = "/api/v1/tokens"
ROUTES = (
    get(_T, list_tokens, summary="List access tokens", rule=require(task=TaskRule.READ)),
    post(
        _T,
        create_token,
        summary="Create an access token",
        rule=require(task=TaskRule.NEVER),
        audit="token.create",
    ),
    patch(
        f"{_T}/{{tokenId}}",
        edit_token,
        summary="Describe or revoke an access token",
        rule=require(task=TaskRule.NEVER),
        audit="token.edit",
    ),
)
