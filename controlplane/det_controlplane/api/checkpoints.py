"""Checkpoints: reports, records, deletion, download."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from det_controlplane.api.answers import Done, OneCheckpoint
from det_controlplane.api.auth import user_of
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
from det_controlplane.api.inputs import MOST_NAMED
from det_controlplane.api.listing import source_type
from det_controlplane.api.router import Unaudited, delete, get, patch, post
from det_controlplane.core.people.permissions import TaskRule, in_body, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.checkpoints import checkpoint_rights, collection, downloads, records
from det_controlplane.services.checkpoints.records import CheckpointReport, parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import listing
from det_controlplane.services.identity import reporters, task_rights
from det_controlplane.services.trials import metric_streams


@dataclass(frozen=True)
class NewCheckpoint:
    task_id: str
    uuid: str
    allocation_id: str | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    state: str = ""
    storage_id: int | None = None
    report_time: datetime | None = None


@dataclass(frozen=True)
class RemainingFiles:
    resources: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointPatch:
    uuid: str
    resources: RemainingFiles | None = None


@dataclass(frozen=True)
class CheckpointPatches:
    checkpoints: list[CheckpointPatch] = field(default_factory=list, metadata={"most": MOST_NAMED})


@dataclass(frozen=True)
class CheckpointMetadata:
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NewMetadata:
    checkpoint: CheckpointMetadata = field(default_factory=CheckpointMetadata)


@dataclass(frozen=True)
class CheckpointNames:
    checkpoint_uuids: list[str] = field(default_factory=list, metadata={"most": MOST_NAMED})


@dataclass(frozen=True)
class CheckpointFiles(CheckpointNames):
    checkpoint_globs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class UseQuery:
    metric_group: str = ""
    trial_source_info_type: str = ""


def report_checkpoint(ctx: Context, request: Request, body: NewCheckpoint) -> Answer:
    task_rights.require_task(ctx, user_of(request), body.task_id)
    reporters.require_tasks(ctx, user_of(request), [body.task_id])
    records.report(
        ctx,
        user_of(request),
        CheckpointReport(
            uuid=body.uuid,
            task_id=body.task_id,
            allocation_id=body.allocation_id,
            resources={name: str(size) for name, size in body.resources.items()},
            metadata=body.metadata,
            state=(body.state or "STATE_COMPLETED").removeprefix("STATE_"),
            storage_id=body.storage_id,
            reported_at=body.report_time,
        ),
    )
    return EMPTY


def patch_checkpoints(ctx: Context, request: Request, body: CheckpointPatches) -> Answer:
    changes = [(patch.uuid, _sizes(patch.resources)) for patch in body.checkpoints]
    for uuid, _ in changes:
        checkpoint_rights.require_report(ctx, user_of(request), parse_uuid(uuid))
    records.patch(ctx, changes)
    return EMPTY


def _sizes(files: RemainingFiles | None) -> dict[str, str] | None:
    if files is None:
        return None
    return {name: str(size) for name, size in files.resources.items()}


def get_checkpoint(ctx: Context, request: Request) -> Answer:
    checkpoint = listing.checkpoint(ctx, request.param("checkpointUuid"))
    return Response(b'{"checkpoint":' + checkpoint.encode() + b"}")


def set_metadata(ctx: Context, request: Request, body: NewMetadata) -> Answer:
    uuid = request.param("checkpointUuid")
    checkpoint_rights.require_change(ctx, user_of(request), parse_uuid(uuid))
    records.set_metadata(ctx, uuid, body.checkpoint.metadata)
    return get_checkpoint(ctx, request)


def delete_checkpoints(ctx: Context, request: Request, body: CheckpointNames) -> Answer:
    uuids = [parse_uuid(uuid) for uuid in body.checkpoint_uuids]
    checkpoint_rights.require_deletion(ctx, user_of(request), uuids)
    collection.delete(ctx, uuids)
    return EMPTY


def remove_files(ctx: Context, request: Request, body: CheckpointFiles) -> Answer:
    uuids = [parse_uuid(uuid) for uuid in body.checkpoint_uuids]
    checkpoint_rights.require_deletion(ctx, user_of(request), uuids)
    collection.delete(ctx, uuids, body.checkpoint_globs)
    return EMPTY


def checkpoint_metrics(ctx: Context, request: Request, query: UseQuery) -> Answer:
    parts = metric_streams.of_checkpoint(
        ctx,
        user_of(request),
        request.param("checkpointUuid"),
        query.metric_group,
        source_type(query.trial_source_info_type),
    )
    return json_parts(parts)


def download_checkpoint(ctx: Context, request: Request) -> Answer:
    """Stream a checkpoint.

    The first piece is read before the answer begins, so that a failure is an error, no broken file.
    """
    archive = downloads.checkpoint(
        ctx, request.param("checkpointUuid"), _choose_media_type(request)
    )
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


def _choose_media_type(request: Request) -> str:
    media_types = [
        part.split(";")[0].strip() for part in request.headers.get("accept", "").split(",")
    ]
    for kind in media_types:
        if kind in downloads.KINDS:
            return kind
        if kind in ("", "*/*", "application/*"):
            return downloads.TAR
    kinds = ", ".join(downloads.KINDS)
    raise UnsupportedMediaType(f"Accept must be one of {kinds}, not {', '.join(media_types)}")


_C = "/api/v1/checkpoints"
ROUTES = (
    post(
        _C,
        report_checkpoint,
        response=Done,
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
        response=OneCheckpoint,
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
        response=OneCheckpoint,
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
