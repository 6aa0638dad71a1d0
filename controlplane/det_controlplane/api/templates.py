"""Templates: what is merged into configurations."""

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.http import EMPTY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.router import delete, get, patch, post, put
from det_controlplane.core.people.permissions import (
    TaskRule,
    by_service,
    in_body,
    in_listing,
    in_path,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.organization import templates


def list_templates(ctx: Context, request: Request) -> Answer:
    workspace_ids = request.integers("workspaceIds", "workspace_ids")
    filters = filters_of(name=request.text("name"), workspace_ids=workspace_ids)
    filters |= request.held()
    return json_parts(templates.listed(ctx, page_of(request), sort_of(request), filters))


def get_template(ctx: Context, request: Request) -> Answer:
    name = request.param("templateName")
    return json_response({"template": templates.get(ctx, user_of(request), name)})


def create(ctx: Context, request: Request) -> Answer:
    return _stored(ctx, request, replace=False)


def put_template(ctx: Context, request: Request) -> Answer:
    return _stored(ctx, request, replace=True)


def _stored(ctx: Context, request: Request, *, replace: bool) -> Answer:
    body = Body(request.json())
    name, config = request.param("templateName"), body.raw("config")
    if body.flag("validateOnly"):
        return json_response({"template": templates.check(name, config)})
    made = templates.create(
        ctx, user_of(request), name, config, body.integer("workspaceId"), replace=replace
    )
    return json_response({"template": made})


def edit(ctx: Context, request: Request) -> Answer:
    """Replace a template's configuration by the body, which is the whole of it."""
    name = request.param("templateName")
    return json_response(
        {"template": templates.set_config(ctx, user_of(request), name, request.json())}
    )


def rename(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    old, new = body.required_text("oldName"), body.required_text("newName")
    return json_response({"template": templates.rename(ctx, user_of(request), old, new)})


def remove(ctx: Context, request: Request) -> Answer:
    templates.delete(ctx, request.param("templateName"))
    return EMPTY


_T = "/api/v1/templates"
ROUTES = (
    get(
        _T,
        list_templates,
        summary="List templates",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_TEMPLATES), task=TaskRule.READ),
    ),
    get(
        f"{_T}/{{templateName}}",
        get_template,
        summary="One template",
        rule=require(in_path(Right.VIEW_TEMPLATES, "template", "templateName"), task=TaskRule.READ),
    ),
    post(
        f"{_T}/{{templateName}}",
        create,
        summary="Create a template",
        rule=require(by_service(Right.CREATE_TEMPLATES), task=TaskRule.AS_OWNER),
        audit="template.create",
    ),
    put(
        f"{_T}/{{templateName}}",
        put_template,
        summary="Create or replace a template",
        rule=require(by_service(Right.UPDATE_TEMPLATES), task=TaskRule.AS_OWNER),
        audit="template.set",
    ),
    patch(
        f"{_T}/{{templateName}}",
        edit,
        summary="Replace the configuration of a template",
        rule=require(
            in_path(Right.UPDATE_TEMPLATES, "template", "templateName"), task=TaskRule.AS_OWNER
        ),
        audit="template.edit",
    ),
    patch(
        "/api/v1/template/rename",
        rename,
        summary="Rename a template",
        rule=require(
            in_body(Right.UPDATE_TEMPLATES, "template", "oldName"), task=TaskRule.AS_OWNER
        ),
        audit="template.rename.edit",
    ),
    delete(
        f"{_T}/{{templateName}}",
        remove,
        summary="Delete a template",
        rule=require(
            in_path(Right.DELETE_TEMPLATES, "template", "templateName"), task=TaskRule.AS_OWNER
        ),
        audit="template.delete",
    ),
)
