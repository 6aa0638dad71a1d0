"""The model registry."""

import json
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from det_controlplane.api.answers import Models, OneModel
from det_controlplane.api.auth import user_of
from det_controlplane.api.http import EMPTY, REPORT_BODY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import ListQuery, OwnerQuery, filters_of, source_type
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


@dataclass(frozen=True)
class ModelQuery(OwnerQuery):
    description: str = ""
    labels: list[str] = field(default_factory=list)
    id: int = 0
    workspace_ids: list[int] = field(default_factory=list)
    workspace_names: list[str] = field(default_factory=list)

    def filters(self) -> dict[str, Any]:
        own = filters_of(
            description=self.description,
            labels=self.labels,
            id=self.id or None,
            workspace_ids=self.workspace_ids,
            workspace_names=self.workspace_names,
        )
        return super().filters() | own


@dataclass(frozen=True)
class LabelQuery:
    workspace_id: int = 0


@dataclass(frozen=True)
class ModelBody:
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    labels: list[str] | None = None
    notes: str | None = None
    workspace_id: int | None = None
    workspace_name: str | None = None

    def changes(self) -> ModelChanges:
        return ModelChanges(
            name=self.name,
            description=self.description,
            metadata=self.metadata,
            labels=self.labels,
            notes=self.notes,
            workspace_id=self.workspace_id,
            workspace_name=self.workspace_name,
        )


@dataclass(frozen=True)
class ModelMove:
    destination_workspace_id: int = 0


@dataclass(frozen=True)
class VersionBody:
    name: str | None = None
    comment: str | None = None
    notes: str | None = None
    metadata: dict[str, Any] | None = None
    labels: list[str] | None = None

    def changes(self) -> VersionChanges:
        return VersionChanges(
            name=self.name,
            comment=self.comment,
            notes=self.notes,
            metadata=self.metadata,
            labels=self.labels,
        )


@dataclass(frozen=True)
class NewVersion(VersionBody):
    checkpoint_uuid: str = field(default="", metadata={"required": True})


@dataclass(frozen=True)
class UseQuery:
    metric_group: str = ""
    trial_source_info_type: str = ""


def list_models(ctx: Context, request: Request, query: ModelQuery) -> Answer:
    filters = query.filters() | request.held()
    return json_parts(models.listed(ctx, query.page(), query.sort(), filters))


def get_model(ctx: Context, request: Request) -> Answer:
    return json_response({"model": models.get(ctx, request.param("modelName"))})


def labels(ctx: Context, request: Request, query: LabelQuery) -> Answer:
    return json_response({"labels": models.labels(ctx, query.workspace_id, request.within)})


def create(ctx: Context, request: Request, body: ModelBody) -> Answer:
    return json_response({"model": models.create(ctx, user_of(request), body.changes())})


def edit(ctx: Context, request: Request, body: ModelBody) -> Answer:
    model = models.edit(ctx, user_of(request), request.param("modelName"), body.changes())
    return json_response({"model": model})


def move(ctx: Context, request: Request, body: ModelMove) -> Answer:
    changes = ModelChanges(workspace_id=body.destination_workspace_id)
    models.edit(ctx, user_of(request), request.param("modelName"), changes)
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


def list_versions(ctx: Context, request: Request, query: ListQuery) -> Answer:
    name = request.param("modelName")
    model, parts = versions.listed(ctx, name, query.page(), query.sort())
    first = f'{{"model":{json.dumps(model)},{next(parts)[1:]}'
    return json_parts(chain((first,), parts))


def get_version(ctx: Context, request: Request) -> Answer:
    version = versions.get(ctx, request.param("modelName"), request.id("modelVersionNum"))
    return json_response({"modelVersion": version})


def create_version(ctx: Context, request: Request, body: NewVersion) -> Answer:
    name, uuid = request.param("modelName"), body.checkpoint_uuid
    version = versions.create(ctx, user_of(request), name, uuid, body.changes())
    return json_response({"modelVersion": version})


def edit_version(ctx: Context, request: Request, body: VersionBody) -> Answer:
    name, number = request.param("modelName"), request.id("modelVersionNum")
    return json_response({"modelVersion": versions.edit(ctx, name, number, body.changes())})


def remove_version(ctx: Context, request: Request) -> Answer:
    name, number = request.param("modelName"), request.id("modelVersionNum")
    versions.delete(ctx, user_of(request), name, number)
    return EMPTY


def version_metrics(ctx: Context, request: Request, query: UseQuery) -> Answer:
    name, number = request.param("modelName"), request.id("modelVersionNum")
    version = versions.get(ctx, name, number)
    parts = metric_streams.of_model_version(
        ctx,
        user_of(request),
        version["model"]["id"],
        number,
        query.metric_group,
        source_type(query.trial_source_info_type),
    )
    return json_parts(parts)


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
        response=Models,
        summary="List models",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_MODEL_REGISTRY), task=TaskRule.READ),
    ),
    post(
        _M,
        create,
        response=OneModel,
        summary="Create a model",
        largest=REPORT_BODY,
        rule=require(by_service(Right.CREATE_MODEL_REGISTRY), task=TaskRule.AS_OWNER),
        audit="model.create",
    ),
    get(
        f"{_M}/{{modelName}}",
        get_model,
        response=OneModel,
        summary="One model, by name or id",
        rule=_VIEW,
    ),
    patch(
        f"{_M}/{{modelName}}",
        edit,
        response=OneModel,
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
