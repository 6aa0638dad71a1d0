"""Experiments: create, look at, steer, take up again, move."""

from dataclasses import replace
from uuid import UUID

from det_controlplane.api.answers import (
    Checkpoints,
    CreatedExperiment,
    Done,
    EditedExperiment,
    Experiments,
    OneExperiment,
    Trials,
)
from det_controlplane.api.auth import request_key, user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.experiment_inputs import (
    Continuation,
    ExperimentBody,
    ExperimentMove,
    ExperimentQuery,
    LabelQuery,
    NewExperiment,
    SearchQuery,
    TrialQuery,
)
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
    CheckpointQuery,
    known_states,
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
from det_controlplane.core.trace_context import TRACEPARENT
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import (
    actions,
    continuing,
    creation,
    decisions,
    deletion,
    editing,
    importance,
    listing,
)
from det_controlplane.services.experiments.creation import Submission
from det_controlplane.services.queue import jobs

_DELETION_WAIT_S = 50.0


def create(ctx: Context, request: Request, body: NewExperiment) -> Answer:
    submission = replace(_submission(request, body), received_at=ctx.now())
    return _creation_answer(creation.create(ctx, user_of(request), submission))


def put_external(ctx: Context, request: Request, body: NewExperiment) -> Answer:
    """Create or find an unmanaged experiment: the same external id always is the same experiment."""
    submission = _submission(request, body, request.param("externalExperimentId"))
    return _creation_answer(creation.put(ctx, user_of(request), submission))


def _creation_answer(created: creation.Created) -> Answer:
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if created.exceeds_slots else []
    return json_object(
        experiment=created.shown,
        config=created.config,
        warnings=as_json(warnings),
        configWarnings=as_json(created.warnings),
    )


def _submission(
    request: Request, body: NewExperiment, external_id: str | None = None
) -> Submission:
    return Submission(
        config=body.config,
        files=files_of(body.model_definition),
        context_id=_uuid(body.context_id) if body.context_id else None,
        activate=body.activate,
        template=body.template,
        project_id=body.project_id,
        parent_id=body.parent_id or None,
        unmanaged=body.unmanaged or external_id is not None,
        validate_only=body.validate_only,
        external_id=external_id,
        idempotency_key=request_key(request),
        traceparent=request.headers.get(TRACEPARENT, ""),
    )


def _uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise BadRequest(f"contextId must be a UUID, not {value!r}") from e


def list_experiments(ctx: Context, request: Request, query: ExperimentQuery) -> Answer:
    filters = query.filters() | request.held()
    if filters.get("archived") is False and "project_id" not in filters:
        filters["visible"] = True
    return json_parts(listing.experiments(ctx, query.page(), query.sort(), filters))


def get_experiment(ctx: Context, request: Request) -> Answer:
    experiment_id = request.id("experimentId")
    experiment = listing.experiment_as_seen_by(ctx, user_of(request), experiment_id)
    return json_object(
        experiment=experiment.shown,
        config=experiment.config,
        jobSummary=as_json(jobs.summary(ctx, experiment)),
    )


def revision(ctx: Context, request: Request) -> Answer:
    return json_response({"revision": listing.revision(ctx, request.id("experimentId"))})


def search(ctx: Context, request: Request, query: SearchQuery) -> Answer:
    return json_response(decisions.of(ctx, request.id("experimentId"), whole=query.whole))


def hyperparameter_importance(ctx: Context, request: Request) -> Answer:
    return json_response(importance.of(ctx, request.id("experimentId")))


def list_trials(ctx: Context, request: Request, query: TrialQuery) -> Answer:
    sort, states = query.sort(), known_states(query.states, WORK_STATES)
    return json_parts(listing.trials(ctx, query.page(), sort, request.id("experimentId"), states))


def list_checkpoints(ctx: Context, request: Request, query: CheckpointQuery) -> Answer:
    checkpoints = listing.checkpoints(
        ctx,
        query.page(),
        query.checkpoint_sort(),
        "experiment_id",
        request.id("id"),
        known_states(query.states, CHECKPOINT_STATES),
    )
    return json_parts(checkpoints)


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


def edit(ctx: Context, request: Request, body: ExperimentBody) -> Answer:
    experiment_id = request.id("experimentId")
    editing.patch(ctx, user_of(request), experiment_id, body.changes())
    return json_object(experiment=listing.experiment(ctx, experiment_id).shown)


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


def resume(ctx: Context, request: Request, body: Continuation) -> Answer:
    experiment_id, override = body.id, body.override_config
    if body.validate_only:
        continuing.check(ctx, user_of(request), experiment_id, override)
        return EMPTY
    continuing.resume(ctx, user_of(request), experiment_id, override)
    experiment = listing.experiment(ctx, experiment_id).shown
    return json_object(experiment=experiment, warnings="[]")


def move(ctx: Context, request: Request, body: ExperimentMove) -> Answer:
    target = body.destination_project_id
    editing.move(ctx, user_of(request), request.id("experimentId"), target)
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


def labels(ctx: Context, request: Request, query: LabelQuery) -> Answer:
    return json_response({"labels": listing.labels(ctx, query.project_id, request.within)})


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
        response=CreatedExperiment,
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
        response=Experiments,
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
    get(
        f"{_E}/{{experimentId}}",
        get_experiment,
        summary="One experiment",
        response=OneExperiment,
        rule=_VIEW,
    ),
    patch(
        f"{_E}/{{experimentId}}",
        edit,
        response=EditedExperiment,
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
        f"{_E}/{{experimentId}}/importance",
        hyperparameter_importance,
        summary="How much each hyperparameter separates the best trials from all trials",
        rule=_VIEW,
    ),
    get(
        f"{_E}/{{experimentId}}/trials",
        list_trials,
        summary="Trials of an experiment",
        response=Trials,
        rule=_VIEW,
    ),
    get(
        f"{_E}/{{id}}/checkpoints",
        list_checkpoints,
        summary="Checkpoints of an experiment",
        response=Checkpoints,
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
        response=Done,
        summary="Run, or run again",
        rule=_STEER,
        audit="experiment.activate",
    ),
    post(
        f"{_E}/{{id}}/pause",
        _command(Command.PAUSE),
        response=Done,
        summary="Checkpoint and stop for now",
        rule=_STEER,
        audit="experiment.pause",
    ),
    post(
        f"{_E}/{{id}}/cancel",
        _command(Command.CANCEL),
        response=Done,
        summary="Checkpoint and end",
        rule=_STEER,
        audit="experiment.cancel",
    ),
    post(
        f"{_E}/{{id}}/kill",
        _command(Command.KILL),
        response=Done,
        summary="End at once",
        rule=_STEER,
        audit="experiment.kill",
    ),
    post(
        f"{_E}/{{id}}/archive",
        archive,
        response=Done,
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
        response=Done,
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
