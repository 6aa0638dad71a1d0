"""Notebooks, shells, commands, TensorBoards and generic tasks: none run here yet, and this says so."""

from det_controlplane.api.errors import NotFound, Unimplemented
from det_controlplane.api.http import Answer, Request, json_response
from det_controlplane.api.listing import page_of
from det_controlplane.api.router import Handler, Route, get, post, put
from det_controlplane.services.context import Context

_KINDS = {
    "notebooks": "notebook",
    "shells": "shell",
    "commands": "command",
    "tensorboards": "tensorboard",
}
_TRAIN = "train by 'det experiment create', and read logs and metrics by 'det trial'"
_INSTEAD = {
    "tensorboard": "'tensorboard --logdir' reads the files of trials where their checkpoints are stored:"
    " {cluster}/tensorboard/experiment/ID"
}


def _listing(plural: str) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        pagination = page_of(request).pagination(0)
        return json_response({plural: [], "pagination": pagination})

    return handler


def _missing(kind: str) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        raise NotFound(f"{kind} '{request.param('taskId')}' not found")

    return handler


def _unavailable(kind: str) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        way_out = _INSTEAD.get(kind, _TRAIN).format(cluster=ctx.cluster_id)
        raise Unimplemented(f"this release does not run {kind}s; {way_out}")

    return handler


def _routes(plural: str, kind: str) -> tuple[Route, ...]:
    base, one = f"/api/v1/{plural}", f"/api/v1/{plural}/{{taskId}}"
    return (
        get(base, _listing(plural), summary=f"List {plural}"),
        post(base, _unavailable(kind), summary=f"Launch a {kind}: 501 in this release"),
        get(one, _missing(kind), summary=f"One {kind}"),
        post(f"{one}/kill", _missing(kind), summary=f"Kill a {kind}"),
        post(f"{one}/set_priority", _missing(kind), summary=f"Set the priority of a {kind}"),
    )


def count(ctx: Context, request: Request) -> Answer:
    return json_response(dict.fromkeys(_KINDS, 0))


_GENERIC = "generic task"
ROUTES = (
    *(route for plural, kind in _KINDS.items() for route in _routes(plural, kind)),
    put("/api/v1/notebooks/{taskId}/report_idle", _missing("notebook"), summary="Report idleness"),
    get("/api/v1/tasks/count", count, summary="How many notebooks and the like run: none"),
    post("/api/v1/generic-tasks", _unavailable(_GENERIC), summary="Launch a task: 501"),
    get("/api/v1/tasks/{taskId}/config", _missing(_GENERIC), summary="Config of a generic task"),
    post("/api/v1/tasks/{taskId}/kill", _missing(_GENERIC), summary="Kill a generic task"),
    post("/api/v1/tasks/{taskId}/pause", _missing(_GENERIC), summary="Pause a generic task"),
    post("/api/v1/tasks/{taskId}/unpause", _missing(_GENERIC), summary="Unpause a generic task"),
)
