"""Commands, notebooks, shells, TensorBoards and generic tasks."""

from uuid import UUID

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest, NotFound, Unimplemented
from det_controlplane.api.experiments import files_of
from det_controlplane.api.http import Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.router import Handler, Route, get, post, put
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import interactive, listing
from det_controlplane.services.tasks.interactive import Told
from det_controlplane.services.tasks.launching import Submission

_TRAIN = "train by 'det experiment create', and read logs and metrics by 'det trial'"
_INSTEAD = {
    "tensorboard": "'tensorboard --logdir' reads the files of trials where their checkpoints are stored:"
    " {cluster}/tensorboard/experiment/ID"
}
_RUNNABLE = (TaskKind.COMMAND,)


def _listing(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        filters = filters_of(
            users=request.texts("users"),
            user_ids=request.integers("userIds", "user_ids"),
            workspace_id=request.integer("workspaceId", "workspace_id") or None,
        )
        found = interactive.listed(
            ctx, kind, page_of(request), sort_of(request), filters | request.held()
        )
        return json_parts(found)

    return handler


def _launching(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        if kind not in _RUNNABLE:
            name = NAMES[kind]
            way_out = _INSTEAD.get(name, _TRAIN).format(cluster=ctx.cluster_id)
            raise Unimplemented(f"this release does not run {name}s; {way_out}")
        told = interactive.launch(ctx, user_of(request), _submission(kind, request))
        warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if told.exceeds_slots else []
        return json_response(
            {
                NAMES[kind]: told.shown, "config": told.config, "warnings": warnings,
                "configWarnings": told.warnings,
            }
        )  # fmt: skip

    return handler


def _submission(kind: TaskKind, request: Request) -> Submission:
    body = Body(request.json())
    context_id = body.optional_text("contextId")
    return Submission(
        kind,
        config=body.object("config"),
        files=files_of(body, "files"),
        context_id=_uuid(context_id) if context_id else None,
        template=body.text("templateName"),
        workspace_id=body.integer("workspaceId"),
    )


def _uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise BadRequest(f"contextId must be a UUID, not {value!r}") from e


def _one(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        told = interactive.get(ctx, kind, request.param("taskId"))
        return json_response({NAMES[kind]: told.shown, "config": told.config})

    return handler


def _kill(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        told = interactive.kill(ctx, user_of(request), kind, request.param("taskId"))
        return _steered(kind, told)

    return handler


def _set_priority(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        priority = Body(request.json()).integer("priority")
        return _steered(
            kind, interactive.set_priority(ctx, kind, request.param("taskId"), priority)
        )

    return handler


def _steered(kind: TaskKind, told: Told) -> Answer:
    return json_response({NAMES[kind]: told.shown})


def _routes(kind: TaskKind) -> tuple[Route, ...]:
    name = NAMES[kind]
    base, one = f"/api/v1/{name}s", f"/api/v1/{name}s/{{taskId}}"
    return (
        get(base, _listing(kind), summary=f"List {name}s"),
        post(base, _launching(kind), summary=f"Launch a {name}"),
        get(one, _one(kind), summary=f"One {name}"),
        post(f"{one}/kill", _kill(kind), summary=f"Kill a {name}"),
        post(f"{one}/set_priority", _set_priority(kind), summary=f"Set the priority of a {name}"),
    )


def _missing(kind: str) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        raise NotFound(f"{kind} '{request.param('taskId')}' not found")

    return handler


def _generic(ctx: Context, request: Request) -> Answer:
    raise Unimplemented(f"this release does not run generic tasks; {_TRAIN}")


def count(ctx: Context, request: Request) -> Answer:
    running = listing.running(ctx, request.within)
    return json_response({f"{name}s": running.get(kind, 0) for kind, name in NAMES.items()})


_GENERIC = "generic task"
ROUTES = (
    *(route for kind in NAMES for route in _routes(kind)),
    put("/api/v1/notebooks/{taskId}/report_idle", _missing("notebook"), summary="Report idleness"),
    get("/api/v1/tasks/count", count, summary="How many notebooks and the like run"),
    post("/api/v1/generic-tasks", _generic, summary="Launch a task: 501"),
    get("/api/v1/tasks/{taskId}/config", _missing(_GENERIC), summary="Config of a generic task"),
    post("/api/v1/tasks/{taskId}/kill", _missing(_GENERIC), summary="Kill a generic task"),
    post("/api/v1/tasks/{taskId}/pause", _missing(_GENERIC), summary="Pause a generic task"),
    post("/api/v1/tasks/{taskId}/unpause", _missing(_GENERIC), summary="Unpause a generic task"),
)
