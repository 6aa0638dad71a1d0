"""Groups of users, and access tokens."""

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.http import EMPTY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.router import delete, get, patch, post, put
from det_controlplane.core.paging import Page
from det_controlplane.services.context import Context
from det_controlplane.services.identity import tokens
from det_controlplane.services.organization import groups


def create_group(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    group = groups.create(ctx, user_of(request), body.text("name"), _ids(body, "addUsers"))
    return json_response({"group": group})


def search_groups(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    filters = filters_of(name=body.text("name"), user_id=body.integer("userId") or None)
    page = Page(body.integer("offset"), body.integer("limit"))
    return json_parts(groups.search(ctx, page, filters))


def get_group(ctx: Context, request: Request) -> Answer:
    return json_response({"group": groups.get(ctx, request.id("groupId"))})


def edit_group(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    group = groups.edit(
        ctx,
        user_of(request),
        request.id("groupId"),
        body.optional_text("name"),
        _ids(body, "addUsers"),
        _ids(body, "removeUsers"),
    )
    return json_response({"group": group})


def delete_group(ctx: Context, request: Request) -> Answer:
    groups.delete(ctx, user_of(request), request.id("groupId"))
    return EMPTY


def _ids(body: Body, name: str) -> list[int]:
    return [Body({"id": item}).integer("id") for item in body.items(name)]


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


_G, _T = "/api/v1/groups", "/api/v1/tokens"
ROUTES = (
    post(_G, create_group, summary="Create a group"),
    post(f"{_G}/search", search_groups, summary="Find groups"),
    get(f"{_G}/{{groupId}}", get_group, summary="One group with its members"),
    put(f"{_G}/{{groupId}}", edit_group, summary="Rename a group, add or remove members"),
    delete(f"{_G}/{{groupId}}", delete_group, summary="Delete a group"),
    get(_T, list_tokens, summary="List access tokens"),
    post(_T, create_token, summary="Create an access token"),
    patch(f"{_T}/{{tokenId}}", edit_token, summary="Describe or revoke an access token"),
)
