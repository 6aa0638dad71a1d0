"""Agents, slots and resource pools, as people see them."""

from dataclasses import dataclass

from det_controlplane.api.answers import Agents, OneAgent
from det_controlplane.api.auth import user_of
from det_controlplane.api.http import EMPTY, Answer, Request, as_json, json_object, json_response
from det_controlplane.api.listing import PageQuery, part_of
from det_controlplane.api.router import delete, get, post
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.agents import administration, join_tokens, moving
from det_controlplane.services.context import Context
from det_controlplane.services.organization import pool_bindings


@dataclass(frozen=True)
class AgentQuery(PageQuery):
    exclude_slots: bool = False
    exclude_containers: bool = False


@dataclass(frozen=True)
class PoolQuery(PageQuery):
    unbound: bool = False


@dataclass(frozen=True)
class DisableBody:
    drain: bool = False


@dataclass(frozen=True)
class MoveBody:
    pool: str = ""
    preempt: bool = False


@dataclass(frozen=True)
class NewJoinToken:
    description: str = ""
    lifespan: str = ""
    max_uses: int | None = None


def list_agents(ctx: Context, request: Request, query: AgentQuery) -> Answer:
    agents = administration.agents(
        ctx, slots=not query.exclude_slots, containers=not query.exclude_containers
    )
    part, pagination = part_of(agents, query.page(default_limit=-1))
    return json_object(agents=f"[{','.join(part)}]", pagination=as_json(pagination))


def get_agent(ctx: Context, request: Request) -> Answer:
    return json_response({"agent": administration.agent(ctx, request.param("agentId"))})


def enable(ctx: Context, request: Request) -> Answer:
    return _set_agent(ctx, request, enabled=True, drain=False)


def disable(ctx: Context, request: Request, body: DisableBody) -> Answer:
    return _set_agent(ctx, request, enabled=False, drain=body.drain)


def _set_agent(ctx: Context, request: Request, **wanted: bool) -> Answer:
    agent = administration.set_agent(ctx, user_of(request), request.param("agentId"), **wanted)
    return json_response({"agent": agent})


def move(ctx: Context, request: Request, body: MoveBody) -> Answer:
    agent_id = request.param("agentId")
    agent = moving.move(ctx, user_of(request), agent_id, body.pool, preempt=body.preempt)
    return json_response({"agent": agent})


def list_slots(ctx: Context, request: Request) -> Answer:
    agent = administration.agent(ctx, request.param("agentId"))
    return json_response({"slots": list(agent["slots"].values())})


def get_slot(ctx: Context, request: Request) -> Answer:
    agent = administration.agent(ctx, request.param("agentId"))
    return json_response({"slot": agent["slots"].get(str(request.id("slotId")))})


def enable_slot(ctx: Context, request: Request) -> Answer:
    return _set_slot(ctx, request, enabled=True, drain=False)


def disable_slot(ctx: Context, request: Request, body: DisableBody) -> Answer:
    return _set_slot(ctx, request, enabled=False, drain=body.drain)


def _set_slot(ctx: Context, request: Request, **wanted: bool) -> Answer:
    agent_id, slot_id = request.param("agentId"), request.id("slotId")
    slot = administration.set_slot(ctx, user_of(request), agent_id, slot_id, **wanted)
    return json_response({"slot": slot})


def list_pools(ctx: Context, request: Request, query: PoolQuery) -> Answer:
    pools = administration.pools(ctx)
    if query.unbound:
        open_to_all = pool_bindings.unbound(ctx)
        pools = [pool for pool in pools if pool["name"] in open_to_all]
    part, pagination = part_of(pools, query.page(default_limit=-1))
    return json_response({"resourcePools": part, "pagination": pagination})


def create_token(ctx: Context, request: Request, body: NewJoinToken) -> Answer:
    token = join_tokens.create(
        ctx, user_of(request), body.description, body.lifespan, body.max_uses
    )
    return json_response({"agentToken": token})


def list_tokens(ctx: Context, request: Request) -> Answer:
    return json_response({"agentTokens": join_tokens.listed(ctx, user_of(request))})


def revoke_token(ctx: Context, request: Request) -> Answer:
    join_tokens.revoke(ctx, user_of(request), request.id("tokenId"))
    return EMPTY


_A, _T = "/api/v1/agents", "/api/v1/agent-tokens"
_UPDATE = require(in_cluster(Right.UPDATE_AGENTS), task=TaskRule.NEVER)
ROUTES = (
    get(
        _A,
        list_agents,
        response=Agents,
        summary="Agents with their slots and containers",
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_A}/{{agentId}}",
        get_agent,
        response=OneAgent,
        summary="One agent",
        rule=require(task=TaskRule.READ),
    ),
    post(
        f"{_A}/{{agentId}}/enable",
        enable,
        summary="Put an agent into service",
        rule=_UPDATE,
        audit="agent.enable",
    ),
    post(
        f"{_A}/{{agentId}}/disable",
        disable,
        summary="Take an agent out of service",
        rule=_UPDATE,
        audit="agent.disable",
    ),
    post(
        f"{_A}/{{agentId}}/move",
        move,
        summary="Move an agent to another pool, after its work",
        response=OneAgent,
        rule=_UPDATE,
        audit="agent.move",
    ),
    get(
        f"{_A}/{{agentId}}/slots",
        list_slots,
        summary="Slots of an agent",
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_A}/{{agentId}}/slots/{{slotId}}",
        get_slot,
        summary="One slot",
        rule=require(task=TaskRule.READ),
    ),
    post(
        f"{_A}/{{agentId}}/slots/{{slotId}}/enable",
        enable_slot,
        summary="Put a slot into service",
        rule=_UPDATE,
        audit="agent.slots.enable",
    ),
    post(
        f"{_A}/{{agentId}}/slots/{{slotId}}/disable",
        disable_slot,
        summary="Take a slot out of service",
        rule=_UPDATE,
        audit="agent.slots.disable",
    ),
    get(
        _T,
        list_tokens,
        summary="Tokens that agents join with",
        rule=require(in_cluster(Right.UPDATE_AGENTS), task=TaskRule.READ),
    ),
    post(
        _T,
        create_token,
        summary="Make a token that agents join with",
        rule=require(in_cluster(Right.UPDATE_AGENTS), task=TaskRule.NEVER, session=True),
        audit="agent-token.create",
    ),
    delete(
        f"{_T}/{{tokenId}}",
        revoke_token,
        summary="Revoke a token that agents join with",
        rule=require(in_cluster(Right.UPDATE_AGENTS), task=TaskRule.NEVER, session=True),
        audit="agent-token.delete",
    ),
    get(
        "/api/v1/resource-pools",
        list_pools,
        summary="Resource pools",
        rule=require(task=TaskRule.READ),
    ),
)
