"""Templates: configuration fragments."""

from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import EMPTY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import ListQuery, filters_of
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


@dataclass(frozen=True)
class TemplateQuery(ListQuery):
    name: str = ""
    workspace_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class NewTemplate:
    config: Any = None  # an object, or its text as YAML
    workspace_id: int = 0
    validate_only: bool = False


@dataclass(frozen=True)
class TemplateNames:
    old_name: str
    new_name: str


def list_templates(ctx: Context, request: Request, query: TemplateQuery) -> Answer:
    filters = filters_of(name=query.name, workspace_ids=query.workspace_ids) | request.held()
    return json_parts(templates.listed(ctx, query.page(), query.sort(), filters))


def get_template(ctx: Context, request: Request) -> Answer:
    name = request.param("templateName")
    return json_response({"template": templates.get(ctx, user_of(request), name)})


def create(ctx: Context, request: Request, body: NewTemplate) -> Answer:
    return _store(ctx, request, body, replace=False)


def put_template(ctx: Context, request: Request, body: NewTemplate) -> Answer:
    return _store(ctx, request, body, replace=True)


def _store(ctx: Context, request: Request, body: NewTemplate, *, replace: bool) -> Answer:
    name = request.param("templateName")
    if body.validate_only:
        return json_response({"template": templates.check(name, body.config)})
    template = templates.create(
        ctx, user_of(request), name, body.config, body.workspace_id, replace=replace
    )
    return json_response({"template": template})


def edit(ctx: Context, request: Request, body: dict[str, Any]) -> Answer:
    """Replace a template's configuration by the body, which is the whole of it."""
    name = request.param("templateName")
    return json_response({"template": templates.set_config(ctx, user_of(request), name, body)})


def rename(ctx: Context, request: Request, body: TemplateNames) -> Answer:
    template = templates.rename(ctx, user_of(request), body.old_name, body.new_name)
    return json_response({"template": template})


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
