"""Experiments: create, look at, steer, take up again, move."""

from typing import Any
from uuid import UUID

from det_controlplane.api.auth import request_key, user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    EMPTY,
    MAX_BODY,
    Answer,
    Request,
    Wait,
    as_json,
    json_object,
    json_parts,
    json_response,
)
from det_controlplane.api.listing import (
    CHECKPOINT_STATES,
    checkpoint_sort_of,
    filters_of,
    owner_filters,
    page_of,
    sort_of,
    states_of,
)
from det_controlplane.api.model_definitions import files_of
from det_controlplane.api.router import Handler, delete, get, patch, post, put
from det_controlplane.core.filters import WORK_STATES
from det_controlplane.core.lifecycle.experiment import Command
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
from det_controlplane.services.experiments import (
    actions,
    continuing,
    creation,
    decisions,
    deletion,
    editing,
    listing,
    moving,
)
from det_controlplane.services.experiments.creation import Submission
from det_controlplane.services.experiments.editing import Changes
from det_controlplane.services.queue import jobs

_POLICY = {
    "saveExperimentBest": "save_experiment_best",
    "saveTrialBest": "save_trial_best",
    "saveTrialLatest": "save_trial_latest",
}
_DELETION_WAIT_S = 50.0
_ID_FILTERS = {"lt": "id_lt", "lte": "id_lte", "gt": "id_gt", "gte": "id_gte"}


def create(ctx: Context, request: Request) -> Answer:
    return _created(creation.create(ctx, user_of(request), _submission(request)))


def put_external(ctx: Context, request: Request) -> Answer:
    """Create or find an unmanaged experiment: the same external id always is the same experiment."""
    submission = _submission(request, request.param("externalExperimentId"))
    return _created(creation.put(ctx, user_of(request), submission))


def _created(created: creation.Created) -> Answer:
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if created.exceeds_slots else []
    return json_object(
        experiment=created.shown,
        config=created.config,
        warnings=as_json(warnings),
        configWarnings=as_json(created.warnings),
    )


def _submission(request: Request, external_id: str | None = None) -> Submission:
    body = Body(request.json())
    context_id = body.optional_text("contextId")
    return Submission(
        config=body.required_text("config"),
        files=files_of(body, "modelDefinition"),
        context_id=_uuid(context_id) if context_id else None,
        activate=body.flag("activate"),
        template=body.text("template"),
        project_id=body.integer("projectId"),
        parent_id=body.optional_integer("parentId") or None,
        unmanaged=body.flag("unmanaged") or external_id is not None,
        validate_only=body.flag("validateOnly"),
        external_id=external_id,
        idempotency_key=request_key(request),
    )


def _uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise BadRequest(f"contextId must be a UUID, not {value!r}") from e


def list_experiments(ctx: Context, request: Request) -> Answer:
    sort = sort_of(request)
    return json_parts(listing.experiments(ctx, page_of(request), sort, _filters(request)))


def _filters(request: Request) -> dict[str, Any]:
    own = filters_of(
        description=request.text("description"),
        labels=request.texts("labels"),
        states=states_of(request, WORK_STATES),
        project_id=request.integer("projectId", "project_id") or None,
        id_in=request.integers("experimentIdFilter.incl"),
        id_not_in=request.integers("experimentIdFilter.notIn"),
        **{n: request.integer(f"experimentIdFilter.{k}") or None for k, n in _ID_FILTERS.items()},
    )
    filters = owner_filters(request) | own | request.held()
    if filters.get("archived") is False and "project_id" not in filters:
        filters["visible"] = True
    return filters


def get_experiment(ctx: Context, request: Request) -> Answer:
    experiment_id = request.id("experimentId")
    found = listing.experiment_as_seen_by(ctx, user_of(request), experiment_id)
    return json_object(
        experiment=found.shown,
        config=found.config,
        jobSummary=as_json(jobs.summary(ctx, found)),
    )


def revision(ctx: Context, request: Request) -> Answer:
    return json_response({"revision": listing.revision(ctx, request.id("experimentId"))})


def search(ctx: Context, request: Request) -> Answer:
    return json_response(
        decisions.of(ctx, request.id("experimentId"), whole=request.flag("whole") is True)
    )


def list_trials(ctx: Context, request: Request) -> Answer:
    sort = sort_of(request)
    page, states = page_of(request), states_of(request, WORK_STATES)
    return json_parts(listing.trials(ctx, page, sort, request.id("experimentId"), states))


def list_checkpoints(ctx: Context, request: Request) -> Answer:
    sort = checkpoint_sort_of(request)
    found = listing.checkpoints(
        ctx,
        page_of(request),
        sort,
        "experiment_id",
        request.id("id"),
        states_of(request, CHECKPOINT_STATES),
    )
    return json_parts(found)


def _command(command: Command) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        actions.command(ctx, request.id("id"), command)
        return EMPTY

    return handler


def archive(ctx: Context, request: Request) -> Answer:
    editing.set_archived(ctx, request.id("id"), True)
    return EMPTY


def unarchive(ctx: Context, request: Request) -> Answer:
    editing.set_archived(ctx, request.id("id"), False)
    return EMPTY


def edit(ctx: Context, request: Request) -> Answer:
    experiment_id = request.id("experimentId")
    editing.patch(ctx, user_of(request), experiment_id, _changes(Body(request.json())))
    return json_object(experiment=listing.experiment(ctx, experiment_id).shown)


def _changes(body: Body) -> Changes:
    texts = {n: body.text(n) for n in ("name", "description", "notes") if body.raw(n) is not None}
    asked, storage = body.body("resources"), body.body("checkpointStorage")
    resources: dict[str, Any] = {
        column: asked.integer(name)
        for name, column in (("priority", "priority"), ("maxSlots", "max_slots"))
        if asked.raw(name) is not None
    }
    if asked.raw("weight") is not None:
        resources["weight"] = asked.number("weight")
    policy = {c: storage.integer(n) for n, c in _POLICY.items() if storage.raw(n) is not None}
    labels = [str(x) for x in body.items("labels")] if body.has("labels") else None
    return Changes(texts, labels, resources, policy)


def remove(ctx: Context, request: Request) -> Answer:
    deletion.delete(ctx, user_of(request), request.id("experimentId"))
    return EMPTY


def add_label(ctx: Context, request: Request) -> Answer:
    labels = editing.add_label(ctx, request.id("experimentId"), request.param("label"))
    return json_response({"labels": labels})


def remove_label(ctx: Context, request: Request) -> Answer:
    labels = editing.remove_label(ctx, request.id("experimentId"), request.param("label"))
    return json_response({"labels": labels})


def best_validation(ctx: Context, request: Request) -> Answer:
    metric = listing.best_searcher_metric(ctx, request.id("experimentId"))
    return json_response({"metric": metric})


def resume(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    experiment_id, override = body.integer("id"), body.text("overrideConfig")
    if body.flag("validateOnly"):
        continuing.check(ctx, user_of(request), experiment_id, override)
        return EMPTY
    continuing.resume(ctx, user_of(request), experiment_id, override)
    shown = listing.experiment(ctx, experiment_id).shown
    return json_object(experiment=shown, warnings="[]")


def move(ctx: Context, request: Request) -> Answer:
    target = Body(request.json()).integer("destinationProjectId")
    moving.move(ctx, user_of(request), request.id("experimentId"), target)
    return EMPTY


def delete_tensorboards(ctx: Context, request: Request) -> Answer:
    from det_controlplane.services.checkpoints import (
        collection,  # loads much, and is asked for seldom
    )

    experiment_id = request.id("experimentId")
    if "deletion" not in request.kept:
        key = collection.delete_tensorboards(ctx, user_of(request), experiment_id)
        request.kept["deletion"] = key
    running = collection.running_task(ctx, experiment_id, request.kept["deletion"])
    if running is None or request.final:
        return EMPTY
    return Wait(f"logs:{running}", _DELETION_WAIT_S)


def labels(ctx: Context, request: Request) -> Answer:
    found = listing.labels(ctx, request.integer("projectId", "project_id"), request.within)
    return json_response({"labels": found})


_E = "/api/v1/experiments"
_VIEW = require(
    in_path(Right.VIEW_EXPERIMENT_METADATA, "experiment", "experimentId"),
    task=TaskRule.READ,
    own=True,
)
_EDIT = require(
    in_path(Right.UPDATE_EXPERIMENT_METADATA, "experiment", "experimentId"),
    task=TaskRule.OWN_EXPERIMENT,
)
_STEER = require(in_path(Right.UPDATE_EXPERIMENT, "experiment", "id"), task=TaskRule.OWN_EXPERIMENT)
ROUTES = (
    post(
        _E,
        create,
        summary="Create an experiment",
        largest=MAX_BODY,
        rule=require(by_service(Right.CREATE_EXPERIMENT), task=TaskRule.AS_OWNER),
        audit="experiment.create",
    ),
    get(
        _E,
        list_experiments,
        summary="List experiments",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    put(
        f"{_E}/by-external-id/{{externalExperimentId}}",
        put_external,
        summary="Create or find an unmanaged experiment by a name of yours",
        largest=MAX_BODY,
        rule=require(by_service(Right.CREATE_EXPERIMENT), task=TaskRule.AS_OWNER),
        audit="experiment.by-external-id.set",
    ),
    get(f"{_E}/{{experimentId}}", get_experiment, summary="One experiment", rule=_VIEW),
    patch(
        f"{_E}/{{experimentId}}",
        edit,
        summary="Edit name, notes, labels, resources, GC policy",
        rule=_EDIT,
        audit="experiment.edit",
    ),
    delete(
        f"{_E}/{{experimentId}}",
        remove,
        summary="Delete an ended experiment",
        rule=require(
            in_path(Right.DELETE_EXPERIMENT, "experiment", "experimentId"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit="experiment.delete",
    ),
    get(
        f"{_E}/{{experimentId}}/revision",
        revision,
        summary="What changes when anything does",
        rule=_VIEW,
    ),
    get(
        f"{_E}/{{experimentId}}/search",
        search,
        summary="What a search decided: its brackets with their rungs, and where and why each trial was stopped",
        rule=_VIEW,
    ),
    get(
        f"{_E}/{{experimentId}}/trials", list_trials, summary="Trials of an experiment", rule=_VIEW
    ),
    get(
        f"{_E}/{{id}}/checkpoints",
        list_checkpoints,
        summary="Checkpoints of an experiment",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "experiment", "id"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    get(
        f"{_E}/{{experimentId}}/searcher/best_searcher_validation_metric",
        best_validation,
        summary="Best searcher metric so far",
        rule=_VIEW,
    ),
    post(
        f"{_E}/{{id}}/activate",
        _command(Command.ACTIVATE),
        summary="Run, or run again",
        rule=_STEER,
        audit="experiment.activate",
    ),
    post(
        f"{_E}/{{id}}/pause",
        _command(Command.PAUSE),
        summary="Checkpoint and stop for now",
        rule=_STEER,
        audit="experiment.pause",
    ),
    post(
        f"{_E}/{{id}}/cancel",
        _command(Command.CANCEL),
        summary="Checkpoint and end",
        rule=_STEER,
        audit="experiment.cancel",
    ),
    post(
        f"{_E}/{{id}}/kill",
        _command(Command.KILL),
        summary="End at once",
        rule=_STEER,
        audit="experiment.kill",
    ),
    post(
        f"{_E}/{{id}}/archive",
        archive,
        summary="Archive an ended experiment",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT_METADATA, "experiment", "id"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit="experiment.archive",
    ),
    post(
        f"{_E}/{{id}}/unarchive",
        unarchive,
        summary="Unarchive an experiment",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT_METADATA, "experiment", "id"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit="experiment.unarchive",
    ),
    put(
        f"{_E}/{{experimentId}}/labels/{{label}}",
        add_label,
        summary="Add a label",
        rule=_EDIT,
        audit="experiment.labels.set",
    ),
    delete(
        f"{_E}/{{experimentId}}/labels/{{label}}",
        remove_label,
        summary="Remove a label",
        rule=_EDIT,
        audit="experiment.labels.delete",
    ),
    post(
        f"{_E}/continue",
        resume,
        summary="Run an ended experiment again from its checkpoints",
        rule=require(in_body(Right.UPDATE_EXPERIMENT, "experiment", "id"), task=TaskRule.NEVER),
        audit="experiment.continue",
    ),
    post(
        f"{_E}/{{experimentId}}/move",
        move,
        summary="Move an experiment to another project",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT, "experiment", "experimentId"),
            in_body(Right.CREATE_EXPERIMENT, "project", "destinationProjectId"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit="experiment.move",
    ),
    delete(
        f"{_E}/{{experimentId}}/tensorboard-files",
        delete_tensorboards,
        summary="Delete the TensorBoard files of an ended experiment",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT, "experiment", "experimentId"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit="experiment.tensorboard-files.delete",
    ),
    get(
        "/api/v1/experiment/labels",
        labels,
        summary="Labels of experiments",
        from_replica=True,
        rule=require(
            in_query(Right.VIEW_EXPERIMENT_METADATA, "project", "projectId"),
            in_listing(Right.VIEW_EXPERIMENT_METADATA),
            task=TaskRule.READ,
        ),
    ),
)
