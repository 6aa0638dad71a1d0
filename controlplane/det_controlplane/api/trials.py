"""Trials: reading them, and the reports of the harness."""

from collections.abc import Sequence

from det_controlplane.api.answers import Checkpoints, OneTrial
from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import ApiError
from det_controlplane.api.http import (
    EMPTY,
    REPORT_BODY,
    Answer,
    Request,
    Response,
    Wait,
    json_object,
    json_parts,
    json_response,
)
from det_controlplane.api.inputs import read_body
from det_controlplane.api.listing import CHECKPOINT_STATES, CheckpointQuery, known_states
from det_controlplane.api.router import Shared, Unaudited, get, patch, post, put
from det_controlplane.api.trial_inputs import (
    Completion,
    EarlyExit,
    GroupMetrics,
    NewExternalTrial,
    NewTrial,
    ProgressBody,
    RunMetadata,
    RunnerState,
    RunStart,
    SourceReport,
    StepQuery,
    StragglerBody,
    TrialMetrics,
    TrialStart,
    TrialState,
    WorkloadQuery,
)
from det_controlplane.core.people.permissions import (
    TaskRule,
    in_any_workspace,
    in_body,
    in_path,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.core.trials.metrics import MetricsReport, storable
from det_controlplane.services.checkpoints import records
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions, listing
from det_controlplane.services.identity import reporters, task_rights
from det_controlplane.services.machines import starts
from det_controlplane.services.trials import (
    metric_reports,
    stragglers,
    trial_reports,
    unmanaged,
    workloads,
)
from det_controlplane.services.trials.workloads import next_of

# Starting a new container costs more than idle slots for this time.
_DECISION_WAIT_S = 20.0
_SHORT = 8 * 1024  # the body of a report that others need not wait for


def get_trial(ctx: Context, request: Request) -> Answer:
    trial = listing.trial(ctx, request.id("trialId"))
    return json_object(trial=trial)


def start_of(ctx: Context, request: Request) -> Answer:
    return json_response({"start": starts.of_trial(ctx, request.id("trialId"))})


def list_checkpoints(ctx: Context, request: Request, query: CheckpointQuery) -> Answer:
    parts = listing.checkpoints(
        ctx,
        query.page(),
        query.checkpoint_sort(),
        "trial_id",
        request.id("trialId"),
        known_states(query.states, CHECKPOINT_STATES),
    )
    return json_parts(parts)


def list_workloads(ctx: Context, request: Request, query: WorkloadQuery) -> Answer:
    page = query.page(default_limit=-1)
    trial_id = request.id("trialId")
    return json_parts(workloads.of_trial(ctx, trial_id, page, query.sort(), query.options()))


def kill(ctx: Context, request: Request) -> Answer:
    actions.kill_trial(ctx, request.id("trialId"))
    return EMPTY


def report_metrics(ctx: Context, request: Request, body: GroupMetrics) -> Answer:
    return _store(ctx, _group_report(request, body))


def _store(ctx: Context, report: MetricsReport) -> Answer:
    """Store a report. Refused metrics give a warning, because an error would end the training."""
    refusal = metric_reports.take(ctx, report)
    return EMPTY if refusal is None else json_response({"warning": refusal})


def _group_report(request: Request, body: GroupMetrics) -> MetricsReport:
    return _report(request, body.group, body.metrics)


def _report(request: Request, group: str, metrics: TrialMetrics) -> MetricsReport:
    return metrics.report(request.id("trialId"), group, request.headers.get("idempotency-key"))


def may_share(request: Request) -> bool:
    """Return whether a report is short, and not for a searcher, which has a lock of its own."""
    if len(request.body) > _SHORT or "content-encoding" in request.headers:
        return False
    return b'"validation"' not in request.body


def report_together(ctx: Context, requests: Sequence[Request]) -> list[Response | None]:
    reports = [_readable(request) for request in requests]
    read = [report for report in reports if report is not None]
    outcomes = iter(metric_reports.take_together(ctx, read))
    return [EMPTY if report is not None and next(outcomes) else None for report in reports]


def _readable(request: Request) -> MetricsReport | None:
    try:
        return _group_report(request, read_body(GroupMetrics, request))
    except ApiError:
        return None


def report_training(ctx: Context, request: Request, body: TrialMetrics) -> Answer:
    """Store a training report of an older harness, which sends each group to a route of its own."""
    return _store(ctx, _report(request, "training", body))


def report_validation(ctx: Context, request: Request, body: TrialMetrics) -> Answer:
    return _store(ctx, _report(request, "validation", body))


def report_progress(ctx: Context, request: Request, body: ProgressBody) -> Answer:
    trial_reports.report_progress(ctx, user_of(request), request.id("trialId"), body.progress)
    return EMPTY


def report_straggler(ctx: Context, request: Request, body: StragglerBody) -> Answer:
    trial_id = request.id("trialId")
    stragglers.report(ctx, user_of(request), trial_id, body.straggler())
    return EMPTY


def early_exit(ctx: Context, request: Request, body: EarlyExit) -> Answer:
    trial_id, reason = request.id("trialId"), body.exit_reason()
    trial_reports.report_early_exit(ctx, user_of(request), trial_id, reason)
    return EMPTY


def runner_metadata(ctx: Context, request: Request, body: RunnerState) -> Answer:
    trial_reports.set_runner_state(ctx, request.id("trialId"), body.state)
    return EMPTY


def patch_trial(ctx: Context, request: Request, body: TrialState) -> Answer:
    state = body.state.removeprefix("STATE_") if body.state else None
    unmanaged.heartbeat(ctx, request.id("trialId"), state)
    return get_trial(ctx, request)


def create_trial(ctx: Context, request: Request, body: NewTrial) -> Answer:
    return _create_trial(ctx, request, body, None)


def put_trial(ctx: Context, request: Request, body: NewExternalTrial) -> Answer:
    return _create_trial(ctx, request, body.create_trial_request, body.external_trial_id)


def _create_trial(
    ctx: Context, request: Request, trial: NewTrial, external_id: str | None
) -> Answer:
    task_rights.require_experiment(ctx, user_of(request), trial.experiment_id)
    hparams = storable(trial.hparams)
    trial_id = unmanaged.create_trial(ctx, trial.experiment_id, hparams, external_id)
    return json_object(trial=listing.trial(ctx, trial_id))


def start_trial(ctx: Context, request: Request, body: TrialStart) -> Answer:
    return json_response(unmanaged.start_trial(ctx, request.id("trialId"), body.resume))


def start_run(ctx: Context, request: Request, body: RunStart) -> Answer:
    storage_id = records.remember_storage(ctx, user_of(request), body.checkpoint_storage)
    return json_response({"storageId": storage_id})


def get_run_metadata(ctx: Context, request: Request) -> Answer:
    return json_response({"metadata": trial_reports.metadata(ctx, request.id("runId"))})


def set_run_metadata(ctx: Context, request: Request, body: RunMetadata) -> Answer:
    metadata = trial_reports.set_metadata(ctx, request.id("runId"), body.metadata)
    return json_response({"metadata": metadata})


def report_source(ctx: Context, request: Request, body: SourceReport) -> Answer:
    source = body.trial_source_info
    task_rights.require_trial(ctx, user_of(request), source.trial_id)
    reporters.require_trial(ctx, user_of(request), source.trial_id)
    trial_reports.report_source(
        ctx,
        source.trial_id,
        source.checkpoint_uuid,
        source.model_id,
        source.model_version,
        source.trial_source_info_type,
    )
    return json_response({"trialId": source.trial_id, "checkpointUuid": source.checkpoint_uuid})


def searcher_operation(ctx: Context, request: Request) -> Answer:
    trial_id = request.id("trialId")
    operation = trial_reports.searcher_operation(ctx, trial_id, may_wait=not request.final)
    if operation.undecided:
        return Wait(f"operation:{trial_id}", _DECISION_WAIT_S)
    order = {"validateAfter": {"length": str(operation.length)}}
    return json_response({"op": order, "completed": operation.completed})


def completed_operation(ctx: Context, request: Request, body: Completion) -> Answer:
    done = body.completed_operation
    trial_id = request.id("trialId")
    trial_reports.complete_operation(ctx, trial_id, done.op.length, done.searcher_metric)
    return EMPTY


def next_workload(ctx: Context, request: Request, query: StepQuery) -> Answer:
    workload = next_of(ctx, request.id("trialId"), query.steps_completed)
    return json_response(
        {
            "workload": {
                "kind": workload.kind.value,
                "numBatches": workload.num_batches,
                "totalBatchesProcessed": workload.total_batches_processed,
            }
        }
    )


def by_external_id(ctx: Context, request: Request) -> Answer:
    trial = listing.trial_by_external_id(
        ctx, request.param("externalExperimentId"), request.param("externalTrialId")
    )
    return json_object(trial=trial)


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
        f"{_T}/{{trialId}}/start",
        start_of,
        summary="The phases of the start of the newest run, with seconds and dollars",
        rule=_VIEW,
    ),
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
        f"{_T}/{{trialId}}/stragglers",
        report_straggler,
        summary="Report a rank that is slow, or has recovered",
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
