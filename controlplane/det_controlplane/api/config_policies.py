"""Config policies: constraints on configurations."""

from dataclasses import dataclass

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import EMPTY, Answer, Request, json_response
from det_controlplane.api.router import delete, get, put
from det_controlplane.core.people.permissions import TaskRule, in_cluster, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.organization import config_policies


def _scope(request: Request) -> int:
    return request.id("workspaceId") if "workspaceId" in request.params else config_policies.CLUSTER


def get_policies(ctx: Context, request: Request) -> Answer:
    policies = config_policies.get(ctx, _scope(request), request.param("workloadType"))
    return json_response({"configPolicies": policies})


@dataclass(frozen=True)
class NewPolicies:
    config_policies: str
    validate_only: bool = False


def put_policies(ctx: Context, request: Request, body: NewPolicies) -> Answer:
    source, workload = body.config_policies, request.param("workloadType")
    if body.validate_only:
        return json_response({"configPolicies": config_policies.check(workload, source)})
    policies = config_policies.put(ctx, user_of(request), _scope(request), workload, source)
    return json_response({"configPolicies": policies})


def delete_policies(ctx: Context, request: Request) -> Answer:
    config_policies.delete(ctx, user_of(request), _scope(request), request.param("workloadType"))
    return EMPTY


_GLOBAL = "/api/v1/config-policies/global/{workloadType}"
_OWN = "/api/v1/config-policies/workspaces/{workspaceId}/{workloadType}"
ROUTES = (
    get(
        _GLOBAL,
        get_policies,
        summary="Config policies of the cluster",
        rule=require(task=TaskRule.READ),
    ),
    put(
        _GLOBAL,
        put_policies,
        summary="Set config policies of the cluster",
        rule=require(in_cluster(Right.MODIFY_GLOBAL_CONFIG_POLICIES), task=TaskRule.NEVER),
        audit="config-policie.global.set",
    ),
    delete(
        _GLOBAL,
        delete_policies,
        summary="Drop config policies of the cluster",
        rule=require(in_cluster(Right.MODIFY_GLOBAL_CONFIG_POLICIES), task=TaskRule.NEVER),
        audit="config-policie.global.delete",
    ),
    get(
        _OWN,
        get_policies,
        summary="Config policies of a workspace",
        rule=require(
            in_path(Right.VIEW_WORKSPACE_CONFIG_POLICIES, "workspace", "workspaceId"),
            task=TaskRule.READ,
        ),
    ),
    put(
        _OWN,
        put_policies,
        summary="Set config policies of a workspace",
        rule=require(
            in_path(Right.MODIFY_WORKSPACE_CONFIG_POLICIES, "workspace", "workspaceId"),
            task=TaskRule.NEVER,
        ),
        audit="config-policie.workspaces.set",
    ),
    delete(
        _OWN,
        delete_policies,
        summary="Drop config policies of a workspace",
        rule=require(
            in_path(Right.MODIFY_WORKSPACE_CONFIG_POLICIES, "workspace", "workspaceId"),
            task=TaskRule.NEVER,
        ),
        audit="config-policie.workspaces.delete",
    ),
)
