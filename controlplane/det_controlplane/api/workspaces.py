"""Workspaces and the resource pools that are reserved for them."""

from det_controlplane.api.agent_users import agent_user_of
from det_controlplane.api.auth import setting, user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import Unimplemented
from det_controlplane.api.http import EMPTY, Answer, Request, json_response, json_text
from det_controlplane.api.listing import filters_of, owner_filters, page_of, part_of, sort_of
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
from det_controlplane.services.organization import pool_bindings, workspaces
from det_controlplane.services.organization.workspaces import WorkspaceChanges


def list_workspaces(ctx: Context, request: Request) -> Answer:
    case_sensitive = request.text("nameCaseSensitive", "name_case_sensitive")
    own = filters_of(name_case_sensitive=case_sensitive, pinned=request.flag("pinned"))
    filters = owner_filters(request) | own | request.held()
    return json_text(
        workspaces.listed(ctx, user_of(request), page_of(request), sort_of(request), filters)
    )


def get_workspace(ctx: Context, request: Request) -> Answer:
    return json_response({"workspace": workspaces.get(ctx, user_of(request), request.id("id"))})


def create(ctx: Context, request: Request) -> Answer:
    made = workspaces.create(ctx, user_of(request), _changes(Body(request.json())))
    return json_response({"workspace": made, "namespaceBindings": {}})


def edit(ctx: Context, request: Request) -> Answer:
    changes = _changes(Body(request.json()))
    edited = workspaces.edit(ctx, user_of(request), request.id("id"), changes)
    return json_response({"workspace": edited, "namespaceBindings": {}})


def _changes(body: Body) -> WorkspaceChanges:
    def given(name: str) -> bool:
        return body.raw(name) is not None

    def pool(name: str, older: str) -> str | None:
        return body.optional_text(name) if given(name) else body.optional_text(older)

    return WorkspaceChanges(
        name=body.optional_text("name"),
        agent_user=agent_user_of(body),
        checkpoint_storage=body.object("checkpointStorageConfig")
        if given("checkpointStorageConfig")
        else None,
        default_compute_pool=pool("defaultComputePool", "defaultComputeResourcePool"),
        default_aux_pool=pool("defaultAuxPool", "defaultAuxResourcePool"),
    )


def remove(ctx: Context, request: Request) -> Answer:
    gone = deletion.delete_workspace(ctx, user_of(request), request.id("id"))
    return json_response({"completed": gone})


def pools_of(ctx: Context, request: Request) -> Answer:
    workspace_id = request.id("workspaceId")
    workspaces.get(ctx, user_of(request), workspace_id)
    names, pagination = part_of(pool_bindings.open_to(ctx, workspace_id), page_of(request))
    return json_response({"resourcePools": names, "pagination": pagination})


def workspaces_of(ctx: Context, request: Request) -> Answer:
    bound = pool_bindings.workspaces_of(ctx, request.param("resourcePoolName"))
    ids, pagination = part_of(bound, page_of(request))
    return json_response({"workspaceIds": ids, "pagination": pagination})


def bind(ctx: Context, request: Request) -> Answer:
    pool_bindings.bind(ctx, user_of(request), request.param("resourcePoolName"), *_named(request))
    return EMPTY


def rebind(ctx: Context, request: Request) -> Answer:
    pool = request.param("resourcePoolName")
    pool_bindings.bind(ctx, user_of(request), pool, *_named(request), replace=True)
    return EMPTY


def unbind(ctx: Context, request: Request) -> Answer:
    pool_bindings.unbind(ctx, user_of(request), request.param("resourcePoolName"), *_named(request))
    return EMPTY


def _named(request: Request) -> tuple[list[int], list[str]]:
    body = Body(request.json())
    ids = body.integers("workspaceIds")
    return ids, [str(name) for name in body.items("workspaceNames")]


def namespaces(ctx: Context, request: Request) -> Answer:
    """Return no namespaces: there is no Kubernetes here."""
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
        summary="List workspaces",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_WORKSPACE), task=TaskRule.READ),
    ),
    post(
        _W,
        create,
        summary="Create a workspace",
        rule=require(in_cluster(Right.CREATE_WORKSPACE), task=TaskRule.AS_OWNER),
        audit="workspace.create",
    ),
    get(f"{_W}/{{id}}", get_workspace, summary="One workspace", rule=_VIEW),
    patch(f"{_W}/{{id}}", edit, summary="Edit a workspace", rule=_UPDATE, audit="workspace.edit"),
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
