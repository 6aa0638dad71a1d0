"""Workspaces and the resource pools that are reserved for them."""

from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.agent_users import AgentUserGroup
from det_controlplane.api.answers import EditedWorkspace, OneWorkspace, Workspaces
from det_controlplane.api.auth import setting, user_of
from det_controlplane.api.errors import Unimplemented
from det_controlplane.api.http import EMPTY, Answer, Request, json_response, json_text
from det_controlplane.api.listing import OwnerQuery, PageQuery, filters_of, part_of
from det_controlplane.api.router import Unaudited, delete, get, patch, post, put
from det_controlplane.core.people.permissions import (
    TaskRule,
    by_service,
    in_cluster,
    in_listing,
    in_path,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.maintenance import deletion
from det_controlplane.services.organization import pool_access, pool_bindings, workspaces
from det_controlplane.services.organization.workspaces import WorkspaceChanges


@dataclass(frozen=True)
class WorkspaceQuery(OwnerQuery):
    name_case_sensitive: str = ""
    pinned: bool | None = None


@dataclass(frozen=True)
class WorkspaceBody:
    name: str | None = None
    agent_user_group: AgentUserGroup | None = None
    checkpoint_storage_config: dict[str, Any] | None = None
    default_compute_pool: str | None = None
    default_compute_resource_pool: str | None = None  # the older name
    default_aux_pool: str | None = None
    default_aux_resource_pool: str | None = None  # the older name

    def changes(self) -> WorkspaceChanges:
        group, compute, aux = (
            self.agent_user_group,
            self.default_compute_pool,
            self.default_aux_pool,
        )
        return WorkspaceChanges(
            name=self.name,
            agent_user=None if group is None else group.values(),
            checkpoint_storage=self.checkpoint_storage_config,
            default_compute_pool=self.default_compute_resource_pool if compute is None else compute,
            default_aux_pool=self.default_aux_resource_pool if aux is None else aux,
        )


@dataclass(frozen=True)
class BoundWorkspaces:
    workspace_ids: list[int] = field(default_factory=list)
    workspace_names: list[str] = field(default_factory=list)


def list_workspaces(ctx: Context, request: Request, query: WorkspaceQuery) -> Answer:
    own = filters_of(name_case_sensitive=query.name_case_sensitive, pinned=query.pinned)
    filters = query.filters() | own | request.held()
    return json_text(workspaces.listed(ctx, user_of(request), query.page(), query.sort(), filters))


def get_workspace(ctx: Context, request: Request) -> Answer:
    return json_response({"workspace": workspaces.get(ctx, user_of(request), request.id("id"))})


def create(ctx: Context, request: Request, body: WorkspaceBody) -> Answer:
    workspace = workspaces.create(ctx, user_of(request), body.changes())
    return json_response({"workspace": workspace, "namespaceBindings": {}})


def edit(ctx: Context, request: Request, body: WorkspaceBody) -> Answer:
    workspace = workspaces.edit(ctx, user_of(request), request.id("id"), body.changes())
    return json_response({"workspace": workspace, "namespaceBindings": {}})


def remove(ctx: Context, request: Request) -> Answer:
    is_deleted = deletion.delete_workspace(ctx, user_of(request), request.id("id"))
    return json_response({"completed": is_deleted})


def pools_of(ctx: Context, request: Request, query: PageQuery) -> Answer:
    workspace_id = request.id("workspaceId")
    caller = user_of(request)
    workspaces.get(ctx, caller, workspace_id)
    closed = pool_access.closed_to(ctx, caller)
    usable = [name for name in pool_bindings.open_to(ctx, workspace_id) if name not in closed]
    names, pagination = part_of(usable, query.page())
    return json_response({"resourcePools": names, "pagination": pagination})


def workspaces_of(ctx: Context, request: Request, query: PageQuery) -> Answer:
    bound = pool_bindings.workspaces_of(ctx, request.param("resourcePoolName"))
    ids, pagination = part_of(bound, query.page())
    return json_response({"workspaceIds": ids, "pagination": pagination})


def bind(ctx: Context, request: Request, body: BoundWorkspaces) -> Answer:
    pool, names = request.param("resourcePoolName"), body.workspace_names
    pool_bindings.bind(ctx, user_of(request), pool, body.workspace_ids, names)
    return EMPTY


def rebind(ctx: Context, request: Request, body: BoundWorkspaces) -> Answer:
    pool, names = request.param("resourcePoolName"), body.workspace_names
    pool_bindings.bind(ctx, user_of(request), pool, body.workspace_ids, names, replace=True)
    return EMPTY


def unbind(ctx: Context, request: Request, body: BoundWorkspaces) -> Answer:
    pool, names = request.param("resourcePoolName"), body.workspace_names
    pool_bindings.unbind(ctx, user_of(request), pool, body.workspace_ids, names)
    return EMPTY


def namespaces(ctx: Context, request: Request) -> Answer:
    """Return an empty list of namespaces, because the cluster does not use Kubernetes."""
    return json_response({"namespaceBindings": {}})


def with_default_namespaces(ctx: Context, request: Request) -> Answer:
    return json_response({"workspaceIds": []})


def kubernetes_managers(ctx: Context, request: Request) -> Answer:
    return json_response({"resourceManagers": []})


def no_kubernetes(ctx: Context, request: Request) -> Answer:
    raise Unimplemented(
        "namespaces and their quotas belong to Kubernetes; this cluster runs agents"
    )


_W, _P = "/api/v1/workspaces", "/api/v1/resource-pools/{resourcePoolName}/workspace-bindings"
_NO_K8S = "Kubernetes only: 501"
_N = "/api/v1/namespace-bindings"
_VIEW = require(in_path(Right.VIEW_WORKSPACE, "workspace", "id"), task=TaskRule.READ)
_UPDATE = require(in_path(Right.UPDATE_WORKSPACE, "workspace", "id"), task=TaskRule.AS_OWNER)
ROUTES = (
    get(
        _W,
        list_workspaces,
        response=Workspaces,
        summary="List workspaces",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_WORKSPACE), task=TaskRule.READ),
    ),
    post(
        _W,
        create,
        response=EditedWorkspace,
        summary="Create a workspace",
        rule=require(in_cluster(Right.CREATE_WORKSPACE), task=TaskRule.AS_OWNER),
        audit="workspace.create",
    ),
    get(f"{_W}/{{id}}", get_workspace, response=OneWorkspace, summary="One workspace", rule=_VIEW),
    patch(
        f"{_W}/{{id}}",
        edit,
        response=EditedWorkspace,
        summary="Edit a workspace",
        rule=_UPDATE,
        audit="workspace.edit",
    ),
    delete(
        f"{_W}/{{id}}",
        remove,
        summary="Delete a workspace with everything in it",
        rule=require(in_path(Right.DELETE_WORKSPACE, "workspace", "id"), task=TaskRule.AS_OWNER),
        audit="workspace.delete",
    ),
    post(
        f"{_W}/{{id}}/archive",
        setting(workspaces.set_archived, True),
        summary="Archive a workspace",
        rule=_UPDATE,
        audit="workspace.archive",
    ),
    post(
        f"{_W}/{{id}}/unarchive",
        setting(workspaces.set_archived, False),
        summary="Unarchive a workspace",
        rule=_UPDATE,
        audit="workspace.unarchive",
    ),
    post(
        f"{_W}/{{id}}/pin",
        setting(workspaces.set_pinned, True),
        summary="Pin a workspace",
        rule=require(in_path(Right.VIEW_WORKSPACE, "workspace", "id"), task=TaskRule.AS_OWNER),
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        f"{_W}/{{id}}/unpin",
        setting(workspaces.set_pinned, False),
        summary="Unpin a workspace",
        rule=require(in_path(Right.VIEW_WORKSPACE, "workspace", "id"), task=TaskRule.AS_OWNER),
        audit=Unaudited.NO_CHANGE,
    ),
    get(
        f"{_W}/{{workspaceId}}/available-resource-pools",
        pools_of,
        summary="Pools it may use",
        rule=require(in_path(Right.VIEW_WORKSPACE, "workspace", "workspaceId"), task=TaskRule.READ),
    ),
    get(
        f"{_W}/{{id}}/list-namespace-bindings",
        namespaces,
        summary="Kubernetes namespaces: none",
        rule=_VIEW,
    ),
    post(
        f"{_W}/{{workspaceId}}/namespace-bindings",
        no_kubernetes,
        summary=_NO_K8S,
        rule=require(
            in_path(Right.UPDATE_WORKSPACE, "workspace", "workspaceId"), task=TaskRule.AS_OWNER
        ),
        audit="workspace.namespace-bindings",
    ),
    delete(
        f"{_W}/{{workspaceId}}/namespace-bindings",
        no_kubernetes,
        summary=_NO_K8S,
        rule=require(
            in_path(Right.UPDATE_WORKSPACE, "workspace", "workspaceId"), task=TaskRule.AS_OWNER
        ),
        audit="workspace.namespace-bindings.delete",
    ),
    post(
        f"{_W}/{{id}}/set-resource-quota",
        no_kubernetes,
        summary=_NO_K8S,
        rule=_UPDATE,
        audit="workspace.set-resource-quota",
    ),
    get(f"{_W}/{{id}}/get-k8s-resource-quotas", no_kubernetes, summary=_NO_K8S, rule=_VIEW),
    get(
        "/api/v1/k8s-resource-managers",
        kubernetes_managers,
        summary="Kubernetes clusters: none",
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_N}/workspace-ids-with-default-bindings",
        with_default_namespaces,
        summary="Workspaces with a namespace: none",
        rule=require(task=TaskRule.READ),
    ),
    post(
        f"{_N}/bulk-auto-create",
        no_kubernetes,
        summary=_NO_K8S,
        rule=require(task=TaskRule.NEVER),
        audit="namespace-binding.bulk-auto-create",
    ),
    get(
        _P,
        workspaces_of,
        summary="Workspaces that a pool is reserved for",
        rule=require(task=TaskRule.READ),
    ),
    post(
        _P,
        bind,
        summary="Reserve a pool for workspaces too",
        rule=require(by_service(Right.MODIFY_RP_WORKSPACE_BINDINGS), task=TaskRule.NEVER),
        audit="resource-pool.workspace-bindings",
    ),
    put(
        _P,
        rebind,
        summary="Reserve a pool for exactly these workspaces",
        rule=require(by_service(Right.MODIFY_RP_WORKSPACE_BINDINGS), task=TaskRule.NEVER),
        audit="resource-pool.workspace-bindings.set",
    ),
    delete(
        _P,
        unbind,
        summary="Take a pool away from workspaces",
        rule=require(in_cluster(Right.MODIFY_RP_WORKSPACE_BINDINGS), task=TaskRule.NEVER),
        audit="resource-pool.workspace-bindings.delete",
    ),
)
