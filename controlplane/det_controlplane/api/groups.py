"""Groups of users."""

from dataclasses import dataclass, field

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import EMPTY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of
from det_controlplane.api.router import Unaudited, delete, get, post, put
from det_controlplane.core.paging import Page
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.organization import groups


@dataclass(frozen=True)
class NewGroup:
    name: str = ""
    add_users: list[int] = field(default_factory=list, metadata={"most": None})


@dataclass(frozen=True)
class GroupChanges:
    name: str | None = None
    add_users: list[int] = field(default_factory=list, metadata={"most": None})
    remove_users: list[int] = field(default_factory=list, metadata={"most": None})


@dataclass(frozen=True)
class GroupSearch:
    name: str = ""
    user_id: int = 0
    offset: int = 0
    limit: int = 0


def create_group(ctx: Context, request: Request, body: NewGroup) -> Answer:
    group = groups.create(ctx, user_of(request), body.name, body.add_users)
    return json_response({"group": group})


def search_groups(ctx: Context, request: Request, body: GroupSearch) -> Answer:
    filters = filters_of(name=body.name, user_id=body.user_id or None)
    return json_parts(groups.search(ctx, Page(body.offset, body.limit), filters))


def get_group(ctx: Context, request: Request) -> Answer:
    return json_response({"group": groups.get(ctx, request.id("groupId"))})


def edit_group(ctx: Context, request: Request, body: GroupChanges) -> Answer:
    group = groups.edit(
        ctx,
        user_of(request),
        request.id("groupId"),
        body.name,
        body.add_users,
        body.remove_users,
    )
    return json_response({"group": group})


def delete_group(ctx: Context, request: Request) -> Answer:
    groups.delete(ctx, user_of(request), request.id("groupId"))
    return EMPTY


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
