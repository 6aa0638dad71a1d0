"""Groups of users."""

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.http import EMPTY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of
from det_controlplane.api.router import Unaudited, delete, get, post, put
from det_controlplane.core.paging import Page
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
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


_G = "/api/v1/groups"
_MANAGE = require(in_cluster(Right.UPDATE_GROUP), task=TaskRule.NEVER, session=True)
ROUTES = (
    post(_G, create_group, summary="Create a group", rule=_MANAGE, audit="group.create"),
    post(
        f"{_G}/search",
        search_groups,
        summary="Find groups",
        rule=require(task=TaskRule.READ),
        audit=Unaudited.NO_CHANGE,
    ),
    get(
        f"{_G}/{{groupId}}",
        get_group,
        summary="One group with its members",
        rule=require(task=TaskRule.READ),
    ),
    put(
        f"{_G}/{{groupId}}",
        edit_group,
        summary="Rename a group, add or remove members",
        rule=_MANAGE,
        audit="group.set",
    ),
    delete(
        f"{_G}/{{groupId}}",
        delete_group,
        summary="Delete a group",
        rule=_MANAGE,
        audit="group.delete",
    ),
)
