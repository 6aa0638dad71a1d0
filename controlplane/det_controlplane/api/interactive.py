"""Commands, notebooks, shells, TensorBoards and generic tasks."""

from uuid import UUID

from det_controlplane.api.auth import request_key, user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.model_definitions import files_of
from det_controlplane.api.projects import filters_in
from det_controlplane.api.router import Handler, Route, get, post, put
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import generic, interactive, listing
from det_controlplane.services.tasks.generic import NewGenericTask
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
        submission = _submission(kind, body, request_key(request))
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


def _submission(kind: TaskKind, body: Body, key: str | None) -> Submission:
    context_id = body.optional_text("contextId")
    return Submission(
        kind,
        config=body.object("config"),
        files=files_of(body, "files"),
        context_id=_uuid(context_id) if context_id else None,
        template=body.text("templateName"),
        workspace_id=body.integer("workspaceId"),
        idempotency_key=key,
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


def report_idle(ctx: Context, request: Request) -> Answer:
    idle = Body(request.json()).flag("idle")
    interactive.report_idle(ctx, user_of(request), request.param("taskId"), idle=idle)
    return EMPTY


def create_generic(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    context_id = body.optional_text("contextId")
    files = files_of(body, "contextDirectory")
    upload = _uuid(context_id) if context_id else None
    new = NewGenericTask(
        body.text("config"),
        Submission(TaskKind.GENERIC, {}, files, upload, idempotency_key=request_key(request)),
        project_id=body.integer("projectId"),
        parent_id=body.text("parentId") or None,
        forked_from=body.text("forkedFrom") or None,
        inherit_context=body.flag("inheritContext"),
        no_pause=body.flag("noPause"),
    )
    made = generic.create(ctx, user_of(request), new)
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if made.exceeds_slots else []
    told = {"taskId": made.task_id, "warnings": warnings, "configWarnings": made.warnings}
    return json_response(told)


def list_generic(ctx: Context, request: Request) -> Answer:
    filters = filters_of(
        users=request.texts("users"),
        user_ids=request.integers("userIds", "user_ids"),
        workspace_id=request.integer("workspaceId", "workspace_id") or None,
    )
    tree_of = request.text("treeOf")
    found = generic.listed(
        ctx, page_of(request), sort_of(request), filters | request.held(), tree_of=tree_of
    )
    return json_parts(found)


def generic_config(ctx: Context, request: Request) -> Answer:
    return json_response({"config": generic.config_of(ctx, request.param("taskId"))})


def kill_generic(ctx: Context, request: Request) -> Answer:
    from_root = Body(request.json()).flag("killFromRoot")
    generic.kill(ctx, user_of(request), request.param("taskId"), from_root=from_root)
    return EMPTY


def pause_generic(ctx: Context, request: Request) -> Answer:
    generic.pause(ctx, user_of(request), request.param("taskId"))
    return EMPTY


def unpause_generic(ctx: Context, request: Request) -> Answer:
    generic.unpause(ctx, user_of(request), request.param("taskId"))
    return EMPTY


def count(ctx: Context, request: Request) -> Answer:
    running = listing.running(ctx, request.within)
    return json_response({f"{name}s": running.get(kind, 0) for kind, name in NAMES.items()})


_T = "/api/v1/tasks"
ROUTES = (
    *(route for kind in NAMES for route in _routes(kind)),
    put("/api/v1/notebooks/{taskId}/report_idle", report_idle, summary="Report idleness"),
    get(f"{_T}/count", count, summary="How many notebooks and the like run"),
    get("/api/v1/generic-tasks", list_generic, summary="List generic tasks, or the tree of one"),
    post("/api/v1/generic-tasks", create_generic, summary="Create a generic task"),
    get(f"{_T}/{{taskId}}/config", generic_config, summary="Configuration of a generic task"),
    post(f"{_T}/{{taskId}}/kill", kill_generic, summary="Kill a generic task and those below it"),
    post(f"{_T}/{{taskId}}/pause", pause_generic, summary="Pause a generic task"),
    post(f"{_T}/{{taskId}}/unpause", unpause_generic, summary="Let a generic task go on"),
)
