"""Around experiments: their files, what a policy would delete, taking them up again, moving them."""

import base64
import json
from collections.abc import Iterator

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest, UnsupportedMediaType
from det_controlplane.api.http import (
    EMPTY,
    Answer,
    Batch,
    Request,
    Response,
    Stream,
    json_object,
    json_response,
    line,
)
from det_controlplane.api.listing import source_type_of
from det_controlplane.api.router import delete, get, post, put
from det_controlplane.core.gc import Policy
from det_controlplane.services.checkpoints import collection, downloads
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import (
    continuing,
    listing,
    model_definitions,
    model_files,
    moving,
    previews,
)
from det_controlplane.services.logs import retention
from det_controlplane.services.trials import metric_streams


def resume(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    experiment_id = body.integer("id")
    continuing.resume(ctx, user_of(request), experiment_id, body.text("overrideConfig"))
    shown = listing.experiment(ctx, experiment_id).shown
    return json_object(experiment=shown, warnings="[]")


def move(ctx: Context, request: Request) -> Answer:
    target = Body(request.json()).integer("destinationProjectId")
    moving.move(ctx, user_of(request), request.id("experimentId"), target)
    return EMPTY


def delete_tensorboards(ctx: Context, request: Request) -> Answer:
    collection.delete_tensorboards(ctx, request.id("experimentId"))
    return EMPTY


def archive_of(ctx: Context, request: Request) -> Answer:
    experiment_id = request.id("experimentId")
    code = model_definitions.of_experiment(ctx, experiment_id, by_url=True)
    if code.url:
        return Response(b"", 302, headers={"location": code.url})
    name = f'attachment; filename="exp{experiment_id}_model_def.tar.gz"'
    headers = {"content-disposition": name}
    return Response(code.content, media_type="application/x-gtar", headers=headers)


def file_tree(ctx: Context, request: Request) -> Answer:
    return json_response({"files": model_files.tree(ctx, request.id("experimentId"))})


def file(ctx: Context, request: Request) -> Answer:
    path = Body(request.json()).required_text("path")
    found = model_files.file(ctx, request.id("experimentId"), path)
    return json_response({"file": base64.b64encode(found.content).decode()})


def download_file(ctx: Context, request: Request) -> Answer:
    found = model_files.file(ctx, request.id("experimentId"), request.text("path"))
    name = json.dumps(found.path.rpartition("/")[2])
    headers = {"content-disposition": f"attachment; filename={name}"}
    return Response(found.content, media_type="application/octet-stream", headers=headers)


def preview_gc(ctx: Context, request: Request) -> Answer:
    policy = Policy(
        save_experiment_best=request.integer("save_experiment_best"),
        save_trial_best=request.integer("save_trial_best"),
        save_trial_latest=request.integer("save_trial_latest"),
    )
    return json_response(previews.collected(ctx, request.id("experimentId"), policy))


def preview_search(ctx: Context, request: Request) -> Answer:
    config = Body(request.json()).object("config")
    return json_response({"summary": previews.search_summary(ctx, config)})


def labels(ctx: Context, request: Request) -> Answer:
    found = listing.labels(ctx, request.integer("projectId", "project_id"), request.within)
    return json_response({"labels": found})


def retain_of_experiment(ctx: Context, request: Request) -> Answer:
    days = Body(request.json()).integer("numDays")
    retention.set_of_experiment(ctx, request.id("experimentId"), days)
    return EMPTY


def retain_of_trial(ctx: Context, request: Request) -> Answer:
    retention.set_of_trial(ctx, request.id("trialId"), Body(request.json()).integer("numDays"))
    return EMPTY


def retention_left(ctx: Context, request: Request) -> Answer:
    return json_response({"remainingDays": retention.days_left(ctx, request.id("id"))})


def by_external_id(ctx: Context, request: Request) -> Answer:
    trial = listing.trial_by_external_id(
        ctx, request.param("externalExperimentId"), request.param("externalTrialId")
    )
    return Response(b'{"trial":' + trial.encode() + b"}")


def training_metrics(ctx: Context, request: Request) -> Answer:
    return _metrics(ctx, request, "training")


def validation_metrics(ctx: Context, request: Request) -> Answer:
    return _metrics(ctx, request, "validation")


def group_metrics(ctx: Context, request: Request) -> Answer:
    return _metrics(ctx, request, request.text("group"))


def _metrics(ctx: Context, request: Request, group: str) -> Answer:
    trial_ids = request.integers("trialIds", "trial_ids")
    if not trial_ids:
        raise BadRequest("trialIds is required")
    metric_streams.check_trials(ctx, trial_ids)

    def fetch(after: metric_streams.Position) -> Batch:
        reports, last = metric_streams.page(ctx, trial_ids, group, after)
        lines = [line({"metrics": reports})] if reports else []
        return Batch(lines, last, len(reports) < metric_streams.BATCH)

    return Stream(fetch, metric_streams.START)


def checkpoint_metrics(ctx: Context, request: Request) -> Answer:
    found = metric_streams.of_checkpoint(
        ctx,
        request.param("checkpointUuid"),
        request.text("metricGroup", "metric_group"),
        source_type_of(request),
    )
    return json_response({"metrics": found})


def download_checkpoint(ctx: Context, request: Request) -> Answer:
    """The first piece is read before anything is sent: what cannot be read is an error, no broken file."""
    archive = downloads.checkpoint(ctx, request.param("checkpointUuid"), _accepted(request))
    first = next(archive.pieces, b"")
    headers = {"content-disposition": f'attachment; filename="{archive.name}"'}
    if archive.size is not None:
        headers["content-length"] = str(archive.size)

    def fetch(piece: bytes) -> Batch:
        following = _next_full(archive.pieces)
        return Batch([piece], following, following is None)

    return Stream(fetch, first, media_type=archive.media_type, headers=headers, is_file=True)


def _next_full(pieces: Iterator[bytes]) -> bytes | None:
    """Compressors may have nothing to say for a while; an empty piece would make the host wait."""
    return next((piece for piece in pieces if piece), None)


def _accepted(request: Request) -> str:
    asked = [part.split(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    for kind in asked:
        if kind in downloads.KINDS:
            return kind
        if kind in ("", "*/*", "application/*"):
            return downloads.TAR
    known = ", ".join(downloads.KINDS)
    raise UnsupportedMediaType(f"Accept must be one of {known}, not {', '.join(asked)}")


_E, _T = "/api/v1/experiments", "/api/v1/trials"
ROUTES = (
    post(f"{_E}/continue", resume, summary="Run an ended experiment again from its checkpoints"),
    post(f"{_E}/{{experimentId}}/move", move, summary="Move an experiment to another project"),
    get(f"{_E}/{{experimentId}}/file_tree", file_tree, summary="Files of a model definition"),
    post(f"{_E}/{{experimentId}}/file", file, summary="One file of a model definition"),
    delete(
        f"{_E}/{{experimentId}}/tensorboard-files",
        delete_tensorboards,
        summary="Delete the TensorBoard files of an ended experiment",
    ),
    put(f"{_E}/{{experimentId}}/retain_logs", retain_of_experiment, summary="Set log retention"),
    get("/api/v1/experiment/labels", labels, summary="Labels of experiments"),
    post("/api/v1/preview-hp-search", preview_search, summary="How many trials train how long"),
    get("/experiments/{experimentId}/model_def", archive_of, summary="Model definition, tar.gz"),
    get("/experiments/{experimentId}/file/download", download_file, summary="One of its files"),
    get(
        "/experiments/{experimentId}/preview_gc",
        preview_gc,
        summary="Checkpoints that a retention policy would delete",
    ),
    put(f"{_T}/{{trialId}}/retain_logs", retain_of_trial, summary="Set log retention"),
    get(f"{_T}/{{id}}/remaining_log_retention_days", retention_left, summary="Days its logs have"),
    get(
        f"{_T}/by-external-id/{{externalExperimentId}}/{{externalTrialId}}",
        by_external_id,
        summary="One unmanaged trial by the names its user gave",
    ),
    get(f"{_T}/metrics/training_metrics", training_metrics, summary="Training metrics (stream)"),
    get(f"{_T}/metrics/validation_metrics", validation_metrics, summary="Validations (stream)"),
    get(f"{_T}/metrics/trial_metrics", group_metrics, summary="Metrics of a group (stream)"),
    get(
        "/api/v1/checkpoints/{checkpointUuid}/metrics",
        checkpoint_metrics,
        summary="Metrics of trials that used a checkpoint",
    ),
    get(
        "/checkpoints/{checkpointUuid}", download_checkpoint, summary="A checkpoint as one archive"
    ),
)
