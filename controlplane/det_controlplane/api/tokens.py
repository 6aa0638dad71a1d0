"""Access tokens."""

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.http import Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.router import get, patch, post
from det_controlplane.core.people.permissions import TaskRule, require
from det_controlplane.services.context import Context
from det_controlplane.services.identity import tokens


def list_tokens(ctx: Context, request: Request) -> Answer:
    filters = filters_of(
        username=request.text("username"),
        ids=request.integers("tokenIds", "token_ids"),
        alive_at=None if request.flag("showInactive", "show_inactive") else ctx.now(),
    )
    found = tokens.listed(ctx, user_of(request), page_of(request), sort_of(request), filters)
    return json_parts(found)


def create_token(ctx: Context, request: Request) -> Answer:
    body, caller = Body(request.json()), user_of(request)
    user_id = body.integer("userId") or caller.id
    token, token_id = tokens.create(
        ctx, caller, user_id, body.text("lifespan"), body.text("description")
    )
    return json_response({"token": token, "tokenId": token_id})


def edit_token(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    info = tokens.edit(
        ctx,
        user_of(request),
        request.id("tokenId"),
        body.optional_text("description"),
        body.flag("setRevoked"),
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
