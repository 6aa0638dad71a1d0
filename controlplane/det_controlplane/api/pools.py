"""Pools that are changed without a restart, and the access to pools: ours, not Determined's."""

from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import Answer, Request, json_response
from det_controlplane.api.router import delete, get, patch, post, put
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.organization import pool_access
from det_controlplane.services.pools import changes, leaving, views


@dataclass(frozen=True)
class PoolBody:
    config: str = ""
    settings: dict[str, Any] | None = None
    validate_only: bool = False
    replace_machines: bool = False

    def submission(self, *, is_change: bool = False) -> changes.Submission:
        return changes.Submission(
            self.config, self.settings, is_change, self.validate_only, self.replace_machines
        )


@dataclass(frozen=True)
class DeleteQuery:
    drain: bool = False
    agents_to: str = ""


@dataclass(frozen=True)
class DefaultBody:
    compute: bool = False
    aux: bool = False


@dataclass(frozen=True)
class HoldersBody:
    users: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


def list_pools(ctx: Context, request: Request) -> Answer:
    return json_response({"pools": views.listed(ctx)})


def get_pool(ctx: Context, request: Request) -> Answer:
    return json_response({"pool": views.one(ctx, user_of(request), request.param("poolName"))})


def create(ctx: Context, request: Request, body: PoolBody) -> Answer:
    return json_response({"pool": changes.create(ctx, user_of(request), body.submission())})


def replace(ctx: Context, request: Request, body: PoolBody) -> Answer:
    return _update(ctx, request, body.submission())


def change(ctx: Context, request: Request, body: PoolBody) -> Answer:
    return _update(ctx, request, body.submission(is_change=True))


def _update(ctx: Context, request: Request, submission: changes.Submission) -> Answer:
    pool = changes.update(ctx, user_of(request), request.param("poolName"), submission)
    return json_response({"pool": pool})


def remove(ctx: Context, request: Request, query: DeleteQuery) -> Answer:
    is_gone = leaving.delete(
        ctx, user_of(request), request.param("poolName"),
        drain=query.drain, agents_to=query.agents_to,
    )  # fmt: skip
    return json_response({"completed": is_gone})


def keep(ctx: Context, request: Request) -> Answer:
    return json_response({"pool": leaving.keep(ctx, user_of(request), request.param("poolName"))})


def adopt(ctx: Context, request: Request) -> Answer:
    return json_response({"pool": changes.adopt(ctx, user_of(request), request.param("poolName"))})


def release(ctx: Context, request: Request) -> Answer:
    pool = changes.release(ctx, user_of(request), request.param("poolName"))
    return json_response({"pool": pool})


def set_default(ctx: Context, request: Request, body: DefaultBody) -> Answer:
    pool = changes.set_default(
        ctx, user_of(request), request.param("poolName"), compute=body.compute, aux=body.aux
    )
    return json_response({"pool": pool})


def get_access(ctx: Context, request: Request) -> Answer:
    return json_response({"access": pool_access.of(ctx, request.param("poolName"))})


def grant(ctx: Context, request: Request, body: HoldersBody) -> Answer:
    pool = request.param("poolName")
    access = pool_access.grant(ctx, user_of(request), pool, body.users, body.groups)
    return json_response({"access": access})


def revoke(ctx: Context, request: Request, body: HoldersBody) -> Answer:
    pool = request.param("poolName")
    access = pool_access.revoke(ctx, user_of(request), pool, body.users, body.groups)
    return json_response({"access": access})


def open_to_all(ctx: Context, request: Request) -> Answer:
    access = pool_access.open_to_all(ctx, user_of(request), request.param("poolName"))
    return json_response({"access": access})


_P = "/api/v1/pools"
_ONE = f"{_P}/{{poolName}}"
_ACCESS = f"{_ONE}/access"
_CHANGE = require(in_cluster(Right.UPDATE_MASTER_CONFIG), task=TaskRule.NEVER)
_GRANT = require(in_cluster(Right.MODIFY_RP_WORKSPACE_BINDINGS), task=TaskRule.NEVER)
_READ = require(task=TaskRule.READ)
ROUTES = (
    get(_P, list_pools, summary="Pools of the configuration and the database", rule=_READ),
    get(_ONE, get_pool, summary="One pool, with its settings for administrators", rule=_READ),
    post(_P, create, summary="Create a pool without a restart", rule=_CHANGE, audit="pool.create"),
    put(_ONE, replace, summary="Replace the settings of a pool", rule=_CHANGE, audit="pool.set"),
    patch(_ONE, change, summary="Change settings of a pool", rule=_CHANGE, audit="pool.edit"),
    delete(
        _ONE,
        remove,
        summary="Delete a pool; with `drain` when its work has ended",
        rule=_CHANGE,
        audit="pool.delete",
    ),
    post(
        f"{_ONE}/keep",
        keep,
        summary="Call off the deletion of a pool",
        rule=_CHANGE,
        audit="pool.keep",
    ),
    post(
        f"{_ONE}/adopt",
        adopt,
        summary="Move a pool from the configuration to the database",
        rule=_CHANGE,
        audit="pool.adopt",
    ),
    post(
        f"{_ONE}/release",
        release,
        summary="Return a pool to the configuration",
        rule=_CHANGE,
        audit="pool.release",
    ),
    put(
        f"{_ONE}/default",
        set_default,
        summary="Make a pool the default for work that names none",
        rule=_CHANGE,
        audit="pool.default",
    ),
    get(_ACCESS, get_access, summary="The users and groups that may use a pool", rule=_READ),
    post(
        _ACCESS,
        grant,
        summary="Restrict a pool to users and groups, or add some",
        rule=_GRANT,
        audit="pool.access.grant",
    ),
    post(
        f"{_ACCESS}/revoke",
        revoke,
        summary="Take users and groups off the list of a pool",
        rule=_GRANT,
        audit="pool.access.revoke",
    ),
    delete(
        _ACCESS,
        open_to_all,
        summary="Let everybody use a pool",
        rule=_GRANT,
        audit="pool.access.open",
    ),
)
