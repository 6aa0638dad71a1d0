"""Checkpoints: reports, records, deletion, download."""

from collections.abc import Iterator
from uuid import UUID

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import MOST_NAMED, Body
from det_controlplane.api.errors import UnsupportedMediaType
from det_controlplane.api.http import (
    EMPTY,
    REPORT_BODY,
    Answer,
    Batch,
    Request,
    Response,
    Stream,
    json_parts,
)
from det_controlplane.api.listing import source_type_of
from det_controlplane.api.router import Unaudited, delete, get, patch, post
from det_controlplane.core.people.permissions import TaskRule, in_body, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.checkpoints import checkpoint_rights, collection, downloads, records
from det_controlplane.services.checkpoints.records import CheckpointReport, parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import listing
from det_controlplane.services.identity import reporters, task_rights
from det_controlplane.services.trials import metric_streams


def report_checkpoint(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    task_rights.require_task(ctx, user_of(request), body.required_text("taskId"))
    reporters.require_tasks(ctx, user_of(request), [body.required_text("taskId")])
    records.report(
        ctx,
        user_of(request),
        CheckpointReport(
            uuid=body.required_text("uuid"),
            task_id=body.required_text("taskId"),
            allocation_id=body.optional_text("allocationId"),
            resources={k: str(v) for k, v in body.object("resources").items()},
            metadata=body.object("metadata"),
            state=(body.text("state") or "STATE_COMPLETED").removeprefix("STATE_"),
            storage_id=body.optional_integer("storageId"),
            reported_at=body.time("reportTime"),
        ),
    )
    return EMPTY


def patch_checkpoints(ctx: Context, request: Request) -> Answer:
    changes = []
    body = Body(request.json())
    body.refuse_more("checkpoints", MOST_NAMED)
    for item in body.bodies("checkpoints"):
        left = item.body("resources")
        given = item.raw("resources") is not None
        resources = {k: str(v) for k, v in left.object("resources").items()}
        changes.append((item.required_text("uuid"), resources if given else None))
    for uuid, _ in changes:
        checkpoint_rights.require_report(ctx, user_of(request), parse_uuid(uuid))
    records.patch(ctx, changes)
    return EMPTY


def get_checkpoint(ctx: Context, request: Request) -> Answer:
    found = listing.checkpoint(ctx, request.param("checkpointUuid"))
    return Response(b'{"checkpoint":' + found.encode() + b"}")


def set_metadata(ctx: Context, request: Request) -> Answer:
    uuid = request.param("checkpointUuid")
    checkpoint_rights.require_change(ctx, user_of(request), parse_uuid(uuid))
    records.set_metadata(ctx, uuid, Body(request.json()).body("checkpoint").object("metadata"))
    return get_checkpoint(ctx, request)


def delete_checkpoints(ctx: Context, request: Request) -> Answer:
    uuids = _uuids(Body(request.json()))
    checkpoint_rights.require_deletion(ctx, user_of(request), uuids)
    collection.delete(ctx, uuids)
    return EMPTY


def _uuids(body: Body) -> list[UUID]:
    body.refuse_more("checkpointUuids", MOST_NAMED)
    return [parse_uuid(str(u)) for u in body.items("checkpointUuids")]


def remove_files(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    uuids = _uuids(body)
    checkpoint_rights.require_deletion(ctx, user_of(request), uuids)
    collection.delete(ctx, uuids, [str(g) for g in body.items("checkpointGlobs")])
    return EMPTY


def checkpoint_metrics(ctx: Context, request: Request) -> Answer:
    found = metric_streams.of_checkpoint(
        ctx,
        user_of(request),
        request.param("checkpointUuid"),
        request.text("metricGroup", "metric_group"),
        source_type_of(request),
    )
    return json_parts(found)


def download_checkpoint(ctx: Context, request: Request) -> Answer:
    """Stream a checkpoint.

    The first piece is read before the answer begins, so that a failure is an error, no broken file.
    """
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
    """Return the next piece with bytes: compressors yield empty ones, for which the host would wait."""
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


_C = "/api/v1/checkpoints"
ROUTES = (
    post(
        _C,
        report_checkpoint,
        summary="Report a checkpoint",
        largest=REPORT_BODY,
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "task", "taskId"), task=TaskRule.BY_SERVICE, own=True
        ),
        audit=Unaudited.REPORT,
    ),
    patch(
        _C,
        patch_checkpoints,
        summary="Report deleted files",
        largest=REPORT_BODY,
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "checkpoint", "checkpoints.uuid"),
            task=TaskRule.BY_SERVICE,
            own=True,
        ),
        audit="checkpoint.edit",
    ),
    delete(
        _C,
        delete_checkpoints,
        summary="Delete checkpoints",
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "checkpoint", "checkpointUuids"),
            task=TaskRule.BY_SERVICE,
        ),
        audit="checkpoint.delete",
    ),
    post(
        f"{_C}/rm",
        remove_files,
        summary="Delete files of checkpoints",
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "checkpoint", "checkpointUuids"),
            task=TaskRule.BY_SERVICE,
            own=True,
        ),
        audit="checkpoint.rm",
    ),
    get(
        f"{_C}/{{checkpointUuid}}",
        get_checkpoint,
        summary="One checkpoint",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "checkpoint", "checkpointUuid"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    post(
        f"{_C}/{{checkpointUuid}}/metadata",
        set_metadata,
        summary="Set metadata of a checkpoint",
        largest=REPORT_BODY,
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT_METADATA, "checkpoint", "checkpointUuid"),
            task=TaskRule.BY_SERVICE,
            own=True,
        ),
        audit="checkpoint.metadata",
    ),
    get(
        f"{_C}/{{checkpointUuid}}/metrics",
        checkpoint_metrics,
        summary="Metrics of trials that used a checkpoint",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "checkpoint", "checkpointUuid"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    get(
        "/checkpoints/{checkpointUuid}",
        download_checkpoint,
        produces=downloads.KINDS,
        summary="A checkpoint as one archive",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "checkpoint", "checkpointUuid"),
            task=TaskRule.READ,
        ),
    ),
)
