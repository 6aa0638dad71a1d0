"""Tasks: lists, their context, and checkpoints that containers report."""

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.http import EMPTY, Answer, Request, Response, json_response
from det_controlplane.api.router import delete, get, patch, post
from det_controlplane.services.checkpoints import checkpoint_rights, collection, records
from det_controlplane.services.checkpoints.records import CheckpointReport, parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import listing, model_definitions
from det_controlplane.services.identity import task_rights
from det_controlplane.services.tasks import listing as task_listing


def list_tasks(ctx: Context, request: Request) -> Answer:
    found = task_listing.live_allocations(ctx, request.within)
    return Response(b'{"allocationIdToSummary":' + found.encode() + b"}")


def legacy_tasks(ctx: Context, request: Request) -> Answer:
    return Response(task_listing.live_allocations(ctx, request.within).encode())


def get_task(ctx: Context, request: Request) -> Answer:
    return json_response({"task": task_listing.task(ctx, request.param("taskId"))})


def accelerators(ctx: Context, request: Request) -> Answer:
    """As agents reported their slots: nothing of what containers report is needed."""
    found = task_listing.accelerators(ctx, request.param("taskId"))
    return json_response({"acceleratorData": found})


def context_directory(ctx: Context, request: Request) -> Answer:
    by_url = request.flag("url") is True
    code = model_definitions.of_task(ctx, request.param("taskId"), by_url=by_url)
    return json_response(code.to_json())


def report_checkpoint(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    task_rights.require_task(ctx, user_of(request), body.required_text("taskId"))
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
    for item in Body(request.json()).bodies("checkpoints"):
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
    uuids = [parse_uuid(str(u)) for u in Body(request.json()).items("checkpointUuids")]
    checkpoint_rights.require_deletion(ctx, user_of(request), uuids)
    collection.delete(ctx, uuids)
    return EMPTY


def remove_files(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    uuids = [parse_uuid(str(u)) for u in body.items("checkpointUuids")]
    checkpoint_rights.require_deletion(ctx, user_of(request), uuids)
    collection.delete(ctx, uuids, [str(g) for g in body.items("checkpointGlobs")])
    return EMPTY


_C = "/api/v1/checkpoints"
ROUTES = (
    get("/api/v1/tasks", list_tasks, summary="Live allocations"),
    get("/tasks", legacy_tasks, summary="Live allocations (older clients)"),
    get("/api/v1/tasks/{taskId}", get_task, summary="One task with its allocations"),
    get("/api/v1/tasks/{taskId}/acceleratorData", accelerators, summary="Devices of a task"),
    get(
        "/api/v1/tasks/{taskId}/context_directory",
        context_directory,
        summary="Files of a task, base64",
    ),
    post(_C, report_checkpoint, summary="Report a checkpoint"),
    patch(_C, patch_checkpoints, summary="Report deleted files"),
    delete(_C, delete_checkpoints, summary="Delete checkpoints"),
    post(f"{_C}/rm", remove_files, summary="Delete files of checkpoints"),
    get(f"{_C}/{{checkpointUuid}}", get_checkpoint, summary="One checkpoint"),
    post(f"{_C}/{{checkpointUuid}}/metadata", set_metadata, summary="Set metadata of a checkpoint"),
)
