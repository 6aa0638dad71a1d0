"""Commands, notebooks, shells, TensorBoards and generic tasks."""

from uuid import UUID

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest, NotFound, Unimplemented
from det_controlplane.api.experiments import files_of
from det_controlplane.api.http import EMPTY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.projects import filters_in
from det_controlplane.api.router import Handler, Route, get, post, put
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import interactive, listing
from det_controlplane.services.tasks.interactive import Told
from det_controlplane.services.tasks.launching import Submission
from det_controlplane.services.tasks.tensorboards import Wanted


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
        body, user = Body(request.json()), user_of(request)
        submission = _submission(kind, body)
        if kind is TaskKind.TENSORBOARD:
            told = interactive.launch_tensorboard(ctx, user, submission, _wanted(body, request))
        elif kind is TaskKind.NOTEBOOK and body.flag("preview"):
            told = interactive.preview(ctx, user, submission)
        else:
            told = interactive.launch(ctx, user, submission)
        warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if told.exceeds_slots else []
        return json_response(
            {
                NAMES[kind]: told.shown, "config": told.config, "warnings": warnings,
                "configWarnings": told.warnings,
            }
        )  # fmt: skip

    return handler


def _wanted(body: Body, request: Request) -> Wanted:
    filters = filters_in(body.body("filters"))
    return Wanted(
        body.integers("experimentIds"),
        body.integers("trialIds"),
        filters | request.held() if filters else {},
    )


def _submission(kind: TaskKind, body: Body) -> Submission:
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
        told = interactive.get(ctx, user_of(request), kind, request.param("taskId"))
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
        task_id = request.param("taskId")
        told = interactive.set_priority(ctx, user_of(request), kind, task_id, priority)
        return _steered(kind, told)

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


def report_idle(ctx: Context, request: Request) -> Answer:
    idle = Body(request.json()).flag("idle")
    interactive.report_idle(ctx, user_of(request), request.param("taskId"), idle=idle)
    return EMPTY


def _generic(ctx: Context, request: Request) -> Answer:
    raise Unimplemented("this release does not run generic tasks; 'det command run' runs a program")


def count(ctx: Context, request: Request) -> Answer:
    running = listing.running(ctx, request.within)
    return json_response({f"{name}s": running.get(kind, 0) for kind, name in NAMES.items()})


_GENERIC = "generic task"
ROUTES = (
    *(route for kind in NAMES for route in _routes(kind)),
    put("/api/v1/notebooks/{taskId}/report_idle", report_idle, summary="Report idleness"),
    get("/api/v1/tasks/count", count, summary="How many notebooks and the like run"),
    post("/api/v1/generic-tasks", _generic, summary="Launch a task: 501"),
    get("/api/v1/tasks/{taskId}/config", _missing(_GENERIC), summary="Config of a generic task"),
    post("/api/v1/tasks/{taskId}/kill", _missing(_GENERIC), summary="Kill a generic task"),
    post("/api/v1/tasks/{taskId}/pause", _missing(_GENERIC), summary="Pause a generic task"),
    post("/api/v1/tasks/{taskId}/unpause", _missing(_GENERIC), summary="Unpause a generic task"),
)
