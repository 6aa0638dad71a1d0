"""Trials: reading them, and the reports of the harness."""

from collections.abc import Sequence

from det_controlplane.api.answers import Checkpoints, OneTrial
from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import ApiError, BadRequest
from det_controlplane.api.http import (
    EMPTY,
    REPORT_BODY,
    Answer,
    Request,
    Response,
    Wait,
    json_parts,
    json_response,
)
from det_controlplane.api.listing import (
    CHECKPOINT_STATES,
    checkpoint_sort_of,
    choice_of,
    is_descending,
    metric_group_of,
    page_of,
    states_of,
)
from det_controlplane.api.router import Shared, Unaudited, get, patch, post, put
from det_controlplane.core.paging import Sort
from det_controlplane.core.people.permissions import (
    TaskRule,
    in_any_workspace,
    in_body,
    in_path,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.core.search import ExitReason
from det_controlplane.core.trials.metrics import MetricsReport, storable
from det_controlplane.services.checkpoints import records
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions, listing
from det_controlplane.services.identity import reporters, task_rights
from det_controlplane.services.trials import metric_reports, trial_reports, unmanaged, workloads
from det_controlplane.services.trials.next_workload import next_of

# Starting a new container costs more than idle slots for this time.
_DECISION_WAIT_S = 20.0
_SHORT = 8 * 1024  # the body of a report that others need not wait for


def get_trial(ctx: Context, request: Request) -> Answer:
    trial = listing.trial(ctx, request.id("trialId"))
    return Response(b'{"trial":' + trial.encode() + b"}")


def list_checkpoints(ctx: Context, request: Request) -> Answer:
    sort = checkpoint_sort_of(request)
    found = listing.checkpoints(
        ctx,
        page_of(request),
        sort,
        "trial_id",
        request.id("trialId"),
        states_of(request, CHECKPOINT_STATES),
    )
    return json_parts(found)


def list_workloads(ctx: Context, request: Request) -> Answer:
    options = workloads.Options(
        filter=choice_of(request, "FILTER_OPTION_", workloads.FILTERS, "filter"),
        batch_metrics=bool(request.flag("includeBatchMetrics", "include_batch_metrics")),
        skip_deleted=bool(request.flag("removeDeletedCheckpoints", "remove_deleted_checkpoints")),
        group=metric_group_of(request) or "validation",
    )
    page, sort = page_of(request, default_limit=-1), _workload_sort_of(request)
    return json_parts(workloads.of_trial(ctx, request.id("trialId"), page, sort, options))


def _workload_sort_of(request: Request) -> Sort:
    """Return the order of workloads: by batches, or by a metric that the caller names."""
    metric, descending = request.text("sortKey", "sort_key"), is_descending(request)
    if metric in ("", "batches"):
        return Sort(descending=descending)
    return Sort(Sort.BY_METRIC, descending, metric)


def kill(ctx: Context, request: Request) -> Answer:
    actions.kill_trial(ctx, request.id("trialId"))
    return EMPTY


def report_metrics(ctx: Context, request: Request) -> Answer:
    return _taken(ctx, _reported(request))


def _taken(ctx: Context, report: MetricsReport) -> Answer:
    """Store a report. Refused metrics give a warning, because an error would end the training."""
    refusal = metric_reports.take(ctx, report)
    return EMPTY if refusal is None else json_response({"warning": refusal})


def _reported(request: Request) -> MetricsReport:
    body = Body(request.json())
    return _report_of(request, body.text("group"), body.body("metrics"))


def may_share(request: Request) -> bool:
    """Return whether a report is short, and not for a searcher, which has a lock of its own."""
    if len(request.body) > _SHORT or "content-encoding" in request.headers:
        return False
    return b'"validation"' not in request.body


def report_together(ctx: Context, requests: Sequence[Request]) -> list[Response | None]:
    reports = [_readable(request) for request in requests]
    read = [report for report in reports if report is not None]
    stored = iter(metric_reports.take_together(ctx, read))
    return [EMPTY if report is not None and next(stored) else None for report in reports]


def _readable(request: Request) -> MetricsReport | None:
    try:
        return _reported(request)
    except ApiError:
        return None


def _report_of(request: Request, group: str, body: Body) -> MetricsReport:
    values = body.body("metrics")
    batch = values.raw("batchMetrics")
    return MetricsReport(
        trial_id=request.id("trialId"),
        run_id=body.integer("trialRunId"),
        group=group,
        total_batches=body.optional_integer("stepsCompleted"),
        metrics=storable(values.object("avgMetrics")),
        batch_metrics=storable(batch) if batch else None,
        reported_at=body.time("reportTime"),
        request_key=request.headers.get("idempotency-key"),
    )


def report_training(ctx: Context, request: Request) -> Answer:
    """Store a training report of an older harness, which sends each group to a route of its own."""
    return _taken(ctx, _report_of(request, "training", Body(request.json())))


def report_validation(ctx: Context, request: Request) -> Answer:
    return _taken(ctx, _report_of(request, "validation", Body(request.json())))


def report_progress(ctx: Context, request: Request) -> Answer:
    progress = Body(request.json()).number("progress")
    trial_reports.report_progress(ctx, user_of(request), request.id("trialId"), progress or 0.0)
    return EMPTY


def early_exit(ctx: Context, request: Request) -> Answer:
    reason = Body(request.json()).required_text("reason").removeprefix("EXITED_REASON_")
    if reason not in ExitReason.__members__:
        raise BadRequest(
            f"reason must be EXITED_REASON_INVALID_HP or ..._INIT_INVALID_HP, not {reason!r}"
        )
    trial_reports.report_early_exit(
        ctx, user_of(request), request.id("trialId"), ExitReason[reason]
    )
    return EMPTY


def runner_metadata(ctx: Context, request: Request) -> Answer:
    trial_reports.set_runner_state(ctx, request.id("trialId"), Body(request.json()).text("state"))
    return EMPTY


def patch_trial(ctx: Context, request: Request) -> Answer:
    trial_id = request.id("trialId")
    state = Body(request.json()).optional_text("state")
    unmanaged.heartbeat(ctx, trial_id, state.removeprefix("STATE_") if state else None)
    return get_trial(ctx, request)


def create_trial(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    task_rights.require_experiment(ctx, user_of(request), body.integer("experimentId"))
    trial_id = unmanaged.create_trial(
        ctx, body.integer("experimentId"), storable(body.object("hparams")), None
    )
    return Response(b'{"trial":' + listing.trial(ctx, trial_id).encode() + b"}")


def put_trial(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    inner = body.body("createTrialRequest")
    task_rights.require_experiment(ctx, user_of(request), inner.integer("experimentId"))
    trial_id = unmanaged.create_trial(
        ctx,
        inner.integer("experimentId"),
        storable(inner.object("hparams")),
        body.required_text("externalTrialId"),
    )
    return Response(b'{"trial":' + listing.trial(ctx, trial_id).encode() + b"}")


def start_trial(ctx: Context, request: Request) -> Answer:
    resume = Body(request.json()).flag("resume")
    return json_response(unmanaged.start_trial(ctx, request.id("trialId"), resume))


def start_run(ctx: Context, request: Request) -> Answer:
    storage = Body(request.json()).object("checkpointStorage")
    return json_response({"storageId": records.remember_storage(ctx, user_of(request), storage)})


def get_run_metadata(ctx: Context, request: Request) -> Answer:
    return json_response({"metadata": trial_reports.metadata(ctx, request.id("runId"))})


def set_run_metadata(ctx: Context, request: Request) -> Answer:
    values = Body(request.json()).object("metadata")
    return json_response({"metadata": trial_reports.set_metadata(ctx, request.id("runId"), values)})


def report_source(ctx: Context, request: Request) -> Answer:
    source = Body(request.json()).body("trialSourceInfo")
    task_rights.require_trial(ctx, user_of(request), source.integer("trialId"))
    reporters.require_trial(ctx, user_of(request), source.integer("trialId"))
    trial_reports.report_source(
        ctx,
        source.integer("trialId"),
        source.required_text("checkpointUuid"),
        source.optional_integer("modelId"),
        source.optional_integer("modelVersion"),
        source.text("trialSourceInfoType"),
    )
    return json_response(
        {"trialId": source.integer("trialId"), "checkpointUuid": source.text("checkpointUuid")}
    )


def searcher_operation(ctx: Context, request: Request) -> Answer:
    trial_id = request.id("trialId")
    operation = trial_reports.searcher_operation(ctx, trial_id, may_wait=not request.final)
    if operation.undecided:
        return Wait(f"operation:{trial_id}", _DECISION_WAIT_S)
    asked = {"validateAfter": {"length": str(operation.length)}}
    return json_response({"op": asked, "completed": operation.completed})


def completed_operation(ctx: Context, request: Request) -> Answer:
    done = Body(request.json()).body("completedOperation")
    length = done.body("op").number("length")
    trial_reports.complete_operation(
        ctx, request.id("trialId"), length or 0.0, done.raw("searcherMetric")
    )
    return EMPTY


def next_workload(ctx: Context, request: Request) -> Answer:
    steps = request.integer("stepsCompleted", "steps_completed")
    found = next_of(ctx, request.id("trialId"), steps)
    return json_response(
        {
            "workload": {
                "kind": found.kind.value,
                "numBatches": found.num_batches,
                "totalBatchesProcessed": found.total_batches_processed,
            }
        }
    )


def by_external_id(ctx: Context, request: Request) -> Answer:
    trial = listing.trial_by_external_id(
        ctx, request.param("externalExperimentId"), request.param("externalTrialId")
    )
    return Response(b'{"trial":' + trial.encode() + b"}")


_T = "/api/v1/trials"
_REPORT = require(
    in_path(Right.UPDATE_EXPERIMENT, "trial", "trialId"),
    task=TaskRule.OWN_TRIAL,
    own=True,
    report=True,
)
_VIEW = require(
    in_path(Right.VIEW_EXPERIMENT_METADATA, "trial", "trialId"), task=TaskRule.READ, own=True
)
REPORT = post(
    f"{_T}/{{trialId}}/metrics",
    report_metrics,
    summary="Report metrics of a group",
    largest=REPORT_BODY,
    shared=Shared(may_share, report_together),
    rule=_REPORT,
    audit=Unaudited.REPORT,
)
ROUTES = (
    post(
        _T,
        create_trial,
        summary="Create an unmanaged trial",
        response=OneTrial,
        largest=REPORT_BODY,
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "experiment", "experimentId"), task=TaskRule.BY_SERVICE
        ),
        audit=Unaudited.REPORT,
    ),
    put(
        _T,
        put_trial,
        summary="Create or find an unmanaged trial",
        response=OneTrial,
        largest=REPORT_BODY,
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "experiment", "createTrialRequest.experimentId"),
            task=TaskRule.BY_SERVICE,
        ),
        audit=Unaudited.REPORT,
    ),
    patch(
        f"{_T}/{{trialId}}",
        patch_trial,
        summary="Heartbeat or end of an unmanaged trial",
        response=OneTrial,
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT, "trial", "trialId"), task=TaskRule.OWN_TRIAL, own=True
        ),
        audit=Unaudited.REPORT,
    ),
    get(f"{_T}/{{trialId}}", get_trial, summary="One trial", response=OneTrial, rule=_VIEW),
    get(
        f"{_T}/{{trialId}}/checkpoints",
        list_checkpoints,
        summary="Checkpoints of a trial",
        response=Checkpoints,
        rule=_VIEW,
    ),
    get(
        f"{_T}/{{trialId}}/workloads",
        list_workloads,
        summary="What the trial has done, step by step",
        rule=_VIEW,
    ),
    get(
        f"{_T}/{{trialId}}/workload",
        next_workload,
        summary="What the trial should do next",
        rule=_VIEW,
    ),
    post(
        f"{_T}/{{trialId}}/kill",
        kill,
        summary="End a trial at once",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT, "trial", "trialId"),
            task=TaskRule.OWN_EXPERIMENT,
            own=True,
        ),
        audit="trial.kill",
    ),
    REPORT,
    post(
        f"{_T}/{{trialId}}/training_metrics",
        report_training,
        summary="Report training metrics (older harnesses)",
        largest=REPORT_BODY,
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_T}/{{trialId}}/validation_metrics",
        report_validation,
        summary="Report validation metrics (older harnesses)",
        largest=REPORT_BODY,
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_T}/{{trialId}}/progress",
        report_progress,
        summary="Report progress",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_T}/{{trialId}}/early_exit",
        early_exit,
        summary="Report invalid hyperparameters",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_T}/{{trialId}}/runner/metadata",
        runner_metadata,
        summary="Report what the trial is doing",
        largest=REPORT_BODY,
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_T}/{{trialId}}/start",
        start_trial,
        summary="Begin a run of an unmanaged trial",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT, "trial", "trialId"), task=TaskRule.OWN_TRIAL, own=True
        ),
        audit=Unaudited.REPORT,
    ),
    get(
        f"{_T}/{{trialId}}/searcher/operation",
        searcher_operation,
        summary="The current searcher operation",
        rule=_REPORT,
    ),
    post(
        f"{_T}/{{trialId}}/searcher/completed_operation",
        completed_operation,
        summary="Complete a searcher operation",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        "/api/v1/runs/start",
        start_run,
        summary="Announce the storage of a run",
        rule=require(in_any_workspace(Right.UPDATE_EXPERIMENT), task=TaskRule.AS_OWNER, own=True),
        audit=Unaudited.REPORT,
    ),
    get(
        "/api/v1/runs/{runId}/metadata",
        get_run_metadata,
        summary="Metadata of a run",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "trial", "runId"), task=TaskRule.READ, own=True
        ),
    ),
    post(
        "/api/v1/runs/{runId}/metadata",
        set_run_metadata,
        summary="Set metadata of a run",
        largest=REPORT_BODY,
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT_METADATA, "trial", "runId"),
            task=TaskRule.OWN_TRIAL,
            own=True,
        ),
        audit="run.metadata",
    ),
    post(
        "/api/v1/trial-source-info",
        report_source,
        summary="Report which checkpoint a trial uses",
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "trial", "trialSourceInfo.trialId"),
            task=TaskRule.BY_SERVICE,
            own=True,
        ),
        audit=Unaudited.REPORT,
    ),
    get(
        f"{_T}/by-external-id/{{externalExperimentId}}/{{externalTrialId}}",
        by_external_id,
        summary="One unmanaged trial by the names its user gave",
        response=OneTrial,
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "experiment-external", "externalExperimentId"),
            task=TaskRule.READ,
        ),
    ),
)
