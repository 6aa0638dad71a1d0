"""The model registry."""

import json
from itertools import chain

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.http import EMPTY, REPORT_BODY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, owner_filters, page_of, sort_of, source_type_of
from det_controlplane.api.router import delete, get, patch, post
from det_controlplane.core.people.permissions import (
    TaskRule,
    by_service,
    in_body,
    in_listing,
    in_path,
    in_query,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.registry import models, versions
from det_controlplane.services.registry.models import ModelChanges
from det_controlplane.services.registry.versions import VersionChanges
from det_controlplane.services.trials import metric_streams


def list_models(ctx: Context, request: Request) -> Answer:
    own = filters_of(
        description=request.text("description"),
        labels=request.texts("labels"),
        id=request.integer("id") or None,
        workspace_ids=request.integers("workspaceIds", "workspace_ids"),
        workspace_names=request.texts("workspaceNames", "workspace_names"),
    )
    filters = owner_filters(request) | own | request.held()
    return json_parts(models.listed(ctx, page_of(request), sort_of(request), filters))


def get_model(ctx: Context, request: Request) -> Answer:
    return json_response({"model": models.get(ctx, request.param("modelName"))})


def labels(ctx: Context, request: Request) -> Answer:
    found = models.labels(ctx, request.integer("workspaceId", "workspace_id"), request.within)
    return json_response({"labels": found})


def create(ctx: Context, request: Request) -> Answer:
    changes = _model_changes(Body(request.json()))
    return json_response({"model": models.create(ctx, user_of(request), changes)})


def edit(ctx: Context, request: Request) -> Answer:
    changes = _model_changes(Body(request.json()))
    edited = models.edit(ctx, user_of(request), request.param("modelName"), changes)
    return json_response({"model": edited})


def _model_changes(body: Body) -> ModelChanges:
    return ModelChanges(
        name=body.optional_text("name"),
        description=body.optional_text("description"),
        metadata=body.object("metadata") if body.raw("metadata") is not None else None,
        labels=_labels(body),
        notes=body.optional_text("notes"),
        workspace_id=body.optional_integer("workspaceId"),
        workspace_name=body.optional_text("workspaceName"),
    )


def _labels(body: Body) -> list[str] | None:
    given = body.raw("labels") is not None
    return [str(label) for label in body.items("labels")] if given else None


def move(ctx: Context, request: Request) -> Answer:
    target = Body(request.json()).integer("destinationWorkspaceId")
    name = request.param("modelName")
    models.edit(ctx, user_of(request), name, ModelChanges(workspace_id=target))
    return EMPTY


def archive(ctx: Context, request: Request) -> Answer:
    name = request.param("modelName")
    models.edit(ctx, user_of(request), name, ModelChanges(archived=True))
    return EMPTY


def unarchive(ctx: Context, request: Request) -> Answer:
    name = request.param("modelName")
    models.edit(ctx, user_of(request), name, ModelChanges(archived=False))
    return EMPTY


def remove(ctx: Context, request: Request) -> Answer:
    models.delete(ctx, user_of(request), request.param("modelName"))
    return EMPTY


def list_versions(ctx: Context, request: Request) -> Answer:
    model, found = versions.listed(
        ctx, request.param("modelName"), page_of(request), sort_of(request)
    )
    first = f'{{"model":{json.dumps(model)},{next(found)[1:]}'
    return json_parts(chain((first,), found))


def get_version(ctx: Context, request: Request) -> Answer:
    found = versions.get(ctx, request.param("modelName"), request.id("modelVersionNum"))
    return json_response({"modelVersion": found})


def create_version(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    made = versions.create(
        ctx,
        user_of(request),
        request.param("modelName"),
        body.required_text("checkpointUuid"),
        _version_changes(body),
    )
    return json_response({"modelVersion": made})


def edit_version(ctx: Context, request: Request) -> Answer:
    changes = _version_changes(Body(request.json()))
    name, number = request.param("modelName"), request.id("modelVersionNum")
    return json_response({"modelVersion": versions.edit(ctx, name, number, changes)})


def _version_changes(body: Body) -> VersionChanges:
    return VersionChanges(
        name=body.optional_text("name"),
        comment=body.optional_text("comment"),
        notes=body.optional_text("notes"),
        metadata=body.object("metadata") if body.raw("metadata") is not None else None,
        labels=_labels(body),
    )


def remove_version(ctx: Context, request: Request) -> Answer:
    name, number = request.param("modelName"), request.id("modelVersionNum")
    versions.delete(ctx, user_of(request), name, number)
    return EMPTY


def version_metrics(ctx: Context, request: Request) -> Answer:
    name, number = request.param("modelName"), request.id("modelVersionNum")
    version = versions.get(ctx, name, number)
    found = metric_streams.of_model_version(
        ctx,
        user_of(request),
        version["model"]["id"],
        number,
        request.text("metricGroup", "metric_group"),
        source_type_of(request),
    )
    return json_parts(found)


_M = "/api/v1/models"
_V = f"{_M}/{{modelName}}/versions"
_VIEW = require(in_path(Right.VIEW_MODEL_REGISTRY, "model", "modelName"), task=TaskRule.READ)
_EDIT = require(in_path(Right.EDIT_MODEL_REGISTRY, "model", "modelName"), task=TaskRule.AS_OWNER)
ROUTES = (
    get(
        "/api/v1/model/labels",
        labels,
        summary="Labels of models",
        rule=require(
            in_query(Right.VIEW_MODEL_REGISTRY, "workspace", "workspaceId"),
            in_listing(Right.VIEW_MODEL_REGISTRY),
            task=TaskRule.READ,
        ),
    ),
    get(
        _M,
        list_models,
        summary="List models",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_MODEL_REGISTRY), task=TaskRule.READ),
    ),
    post(
        _M,
        create,
        summary="Create a model",
        largest=REPORT_BODY,
        rule=require(by_service(Right.CREATE_MODEL_REGISTRY), task=TaskRule.AS_OWNER),
        audit="model.create",
    ),
    get(f"{_M}/{{modelName}}", get_model, summary="One model, by name or id", rule=_VIEW),
    patch(
        f"{_M}/{{modelName}}",
        edit,
        summary="Edit a model",
        largest=REPORT_BODY,
        rule=_EDIT,
        audit="model.edit",
    ),
    delete(
        f"{_M}/{{modelName}}",
        remove,
        summary="Delete a model with its versions",
        rule=require(
            in_path(Right.DELETE_MODEL_REGISTRY, "model", "modelName"), task=TaskRule.AS_OWNER
        ),
        audit="model.delete",
    ),
    post(
        f"{_M}/{{modelName}}/archive",
        archive,
        summary="Archive a model",
        rule=_EDIT,
        audit="model.archive",
    ),
    post(
        f"{_M}/{{modelName}}/unarchive",
        unarchive,
        summary="Unarchive a model",
        rule=_EDIT,
        audit="model.unarchive",
    ),
    post(
        f"{_M}/{{modelName}}/move",
        move,
        summary="Move a model to another workspace",
        rule=require(
            in_path(Right.EDIT_MODEL_REGISTRY, "model", "modelName"),
            in_body(Right.CREATE_MODEL_REGISTRY, "workspace", "destinationWorkspaceId"),
            task=TaskRule.AS_OWNER,
        ),
        audit="model.move",
    ),
    get(_V, list_versions, summary="Versions of a model", rule=_VIEW),
    post(
        _V,
        create_version,
        summary="Register a checkpoint as the next version",
        largest=REPORT_BODY,
        rule=require(
            in_path(Right.EDIT_MODEL_REGISTRY, "model", "modelName"),
            in_body(Right.VIEW_EXPERIMENT_ARTIFACTS, "checkpoint", "checkpointUuid"),
            task=TaskRule.AS_OWNER,
        ),
        audit="model.versions",
    ),
    get(f"{_V}/{{modelVersionNum}}", get_version, summary="One version", rule=_VIEW),
    patch(
        f"{_V}/{{modelVersionNum}}",
        edit_version,
        summary="Edit a version",
        largest=REPORT_BODY,
        rule=_EDIT,
        audit="model.versions.edit",
    ),
    delete(
        f"{_V}/{{modelVersionNum}}",
        remove_version,
        summary="Delete a version",
        rule=require(
            in_path(Right.DELETE_MODEL_VERSION, "model", "modelName"), task=TaskRule.AS_OWNER
        ),
        audit="model.versions.delete",
    ),
    get(
        f"{_V}/{{modelVersionNum}}/metrics",
        version_metrics,
        summary="Metrics of its users",
        rule=_VIEW,
    ),
)
