"""Rented machines, and the pools that rent them: ours, not Determined's."""

from dataclasses import dataclass
from datetime import datetime

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import Answer, Request, json_parts, json_response
from det_controlplane.api.listing import ListQuery, filters_of
from det_controlplane.api.router import get, post
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.machines import administration


@dataclass(frozen=True)
class InstanceQuery(ListQuery):
    pool: str = ""
    all: bool = False
    ended_after: datetime | None = None


@dataclass(frozen=True)
class HoldBody:
    reason: str = ""


def list_instances(ctx: Context, request: Request, query: InstanceQuery) -> Answer:
    filters = filters_of(
        pool=query.pool,
        live=None if query.all or query.ended_after else True,
        ended_after=query.ended_after,
    )
    return json_parts(administration.listed(ctx, query.page(), query.sort(), filters))


def get_instance(ctx: Context, request: Request) -> Answer:
    instance = administration.instance(ctx, user_of(request), request.param("instanceId"))
    return json_response({"instance": instance})


def terminate(ctx: Context, request: Request) -> Answer:
    instance = administration.terminate(ctx, user_of(request), request.param("instanceId"))
    return json_response({"instance": instance})


def list_pools(ctx: Context, request: Request) -> Answer:
    return json_response({"pools": administration.pools(ctx)})


def get_pool(ctx: Context, request: Request) -> Answer:
    return json_response({"pool": administration.pool(ctx, request.param("poolName"))})


def hold(ctx: Context, request: Request, body: HoldBody) -> Answer:
    pool = administration.hold(ctx, user_of(request), request.param("poolName"), body.reason)
    return json_response({"pool": pool})


def resume(ctx: Context, request: Request) -> Answer:
    pool = administration.resume(ctx, user_of(request), request.param("poolName"))
    return json_response({"pool": pool})


_I, _P = "/api/v1/instances", "/api/v1/rented-pools"
_UPDATE = require(in_cluster(Right.UPDATE_AGENTS), task=TaskRule.NEVER)
ROUTES = (
    get(
        _I,
        list_instances,
        summary="List rented machines; with `endedAfter` also those that ended since",
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_I}/{{instanceId}}",
        get_instance,
        summary="One rented machine; what it printed, to those who may end it",
        rule=require(task=TaskRule.READ),
    ),
    post(
        f"{_I}/{{instanceId}}/terminate",
        terminate,
        summary="Give a rented machine back",
        rule=_UPDATE,
        audit="instance.terminate",
    ),
    get(
        _P,
        list_pools,
        summary="Pools that rent machines, with their offers",
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_P}/{{poolName}}",
        get_pool,
        summary="One pool that rents machines",
        rule=require(task=TaskRule.READ),
    ),
    post(
        f"{_P}/{{poolName}}/hold",
        hold,
        summary="Have a pool launch nothing",
        rule=_UPDATE,
        audit="rented-pool.hold",
    ),
    post(
        f"{_P}/{{poolName}}/resume",
        resume,
        summary="Let a pool launch again",
        rule=_UPDATE,
        audit="rented-pool.resume",
    ),
)
