"""Commands, notebooks, shells, TensorBoards and generic tasks."""

import json
from typing import Any
from uuid import UUID

from det_controlplane.api.auth import request_key, user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, MAX_BODY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.model_definitions import files_of
from det_controlplane.api.projects import filters_in
from det_controlplane.api.router import Handler, Route, Unaudited, get, post, put
from det_controlplane.core.config import load_yaml
from det_controlplane.core.config.layers import merge
from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.core.people.permissions import (
    TaskRule,
    in_any_workspace,
    in_listing,
    in_path,
    in_query,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.core.secrets import redacted
from det_controlplane.services.context import Context
from det_controlplane.services.interactive import interactive
from det_controlplane.services.interactive.interactive import TaskAnswer
from det_controlplane.services.tasks import generic, listing
from det_controlplane.services.tasks.generic import NewGenericTask
from det_controlplane.services.tasks.launching import Resolved, Submission
from det_controlplane.services.tasks.tensorboards import TensorBoardRequest

_CONFIGURATION = "configuration"
_UPDATE = require(in_path(Right.UPDATE_NSC, "task", "taskId"), task=TaskRule.OWN_TASK)


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
        is_preview = body.flag("preview")
        if kind is TaskKind.TENSORBOARD:
            act = interactive.preview_tensorboard if is_preview else interactive.launch_tensorboard
            told = act(ctx, user, submission, _wanted(body, request))
        else:
            told = (interactive.preview if is_preview else interactive.launch)(
                ctx, user, submission
            )
        warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if told.exceeds_slots else []
        return json_response(
            {
                NAMES[kind]: told.shown, "config": told.config, "warnings": warnings,
                "configWarnings": told.warnings,
            }
        )  # fmt: skip

    return handler


def _wanted(body: Body, request: Request) -> TensorBoardRequest:
    filters = filters_in(body.body("filters"))
    return TensorBoardRequest(
        body.integers("experimentIds"),
        body.integers("trialIds"),
        filters | request.held() if filters else {},
    )


def _submission(kind: TaskKind, body: Body, key: str | None) -> Submission:
    context_id = body.optional_text("contextId")
    return Submission(
        kind,
        config=_config(body),
        files=files_of(body, "files"),
        context_id=_uuid(context_id) if context_id else None,
        template=body.text("templateName"),
        workspace_id=body.integer("workspaceId"),
        idempotency_key=key,
    )


def _config(body: Body) -> dict[str, Any]:
    """Return the configuration of a request; what `configText` says, YAML as people write it, lies on top."""
    given, written = body.object("config"), body.text("configText")
    return merge(load_yaml(written, what=_CONFIGURATION), given) if written.strip() else given


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


def _steered(kind: TaskKind, told: TaskAnswer) -> Answer:
    return json_response({NAMES[kind]: told.shown})


def _routes(kind: TaskKind) -> tuple[Route, ...]:
    name = NAMES[kind]
    base, one = f"/api/v1/{name}s", f"/api/v1/{name}s/{{taskId}}"
    return (
        get(
            base,
            _listing(kind),
            summary=f"List {name}s",
            rule=require(in_listing(Right.VIEW_NSC), task=TaskRule.READ),
        ),
        post(
            base,
            _launching(kind),
            summary=f"Launch a {name}",
            largest=MAX_BODY,
            rule=require(in_any_workspace(Right.CREATE_NSC), task=TaskRule.AS_OWNER),
            audit=f"{name}.create",
        ),
        get(
            one,
            _one(kind),
            summary=f"One {name}",
            rule=require(in_path(Right.VIEW_NSC, "task", "taskId"), task=TaskRule.READ),
            # The answer lets its caller open the task. A command has no page to open.
            audit=None if kind is TaskKind.COMMAND else f"{name}.open",
        ),
        post(
            f"{one}/kill", _kill(kind), summary=f"Kill a {name}", rule=_UPDATE, audit=f"{name}.kill"
        ),
        post(
            f"{one}/set_priority",
            _set_priority(kind),
            summary=f"Set the priority of a {name}",
            rule=_UPDATE,
            audit=f"{name}.set_priority",
        ),
    )


def terminal(ctx: Context, request: Request) -> Answer:
    address, token = interactive.terminal(ctx, user_of(request), request.param("taskId"))
    return json_response({"address": address, "token": token})


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
        _generic_config(body),
        Submission(TaskKind.GENERIC, {}, files, upload, idempotency_key=request_key(request)),
        project_id=body.integer("projectId"),
        parent_id=body.text("parentId") or None,
        forked_from=body.text("forkedFrom") or None,
        inherit_context=body.flag("inheritContext"),
        no_pause=body.flag("noPause"),
    )
    if body.flag("preview"):
        return json_response(_previewed(generic.prepared(ctx, user_of(request), new).resolved))
    made = generic.create(ctx, user_of(request), new)
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if made.exceeds_slots else []
    told = {"taskId": made.task_id, "warnings": warnings, "configWarnings": made.warnings}
    return json_response(told)


def _generic_config(body: Body) -> str:
    given, written = body.text("config"), body.text("configText")
    if not written.strip():
        return given
    below = load_yaml(given, what=_CONFIGURATION) if given.strip() else {}
    return json.dumps(merge(load_yaml(written, what=_CONFIGURATION), below))


def _previewed(resolved: Resolved) -> dict[str, Any]:
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if resolved.exceeds_slots else []
    config = redacted(resolved.config.of_kind(TaskKind.GENERIC))
    return {
        "taskId": "", "config": config, "warnings": warnings, "configWarnings": resolved.warnings,
    }  # fmt: skip


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
    put(
        "/api/v1/notebooks/{taskId}/report_idle",
        report_idle,
        summary="Report idleness",
        rule=require(in_path(Right.UPDATE_NSC, "task", "taskId"), task=TaskRule.OWN_TASK, own=True),
        audit=Unaudited.REPORT,
    ),
    get(
        "/api/v1/shells/{taskId}/terminal",
        terminal,
        summary="What opens a terminal of a shell",
        rule=require(in_path(Right.VIEW_NSC, "task", "taskId"), task=TaskRule.NEVER),
        audit="shell.terminal.open",
    ),
    get(
        f"{_T}/count",
        count,
        summary="How many notebooks and the like run",
        rule=require(in_listing(Right.VIEW_NSC), task=TaskRule.READ),
    ),
    get(
        "/api/v1/generic-tasks",
        list_generic,
        summary="List generic tasks, or the tree of one",
        rule=require(
            in_query(Right.VIEW_NSC, "task", "treeOf"),
            in_listing(Right.VIEW_NSC),
            task=TaskRule.READ,
        ),
    ),
    post(
        "/api/v1/generic-tasks",
        create_generic,
        summary="Create a generic task",
        largest=MAX_BODY,
        rule=require(in_any_workspace(Right.CREATE_NSC), task=TaskRule.AS_OWNER),
        audit="generic-task.create",
    ),
    get(
        f"{_T}/{{taskId}}/config",
        generic_config,
        summary="Configuration of a generic task",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "task", "taskId"), task=TaskRule.READ, own=True
        ),
    ),
    post(
        f"{_T}/{{taskId}}/kill",
        kill_generic,
        summary="Kill a generic task and those below it",
        rule=_UPDATE,
        audit="task.kill",
    ),
    post(
        f"{_T}/{{taskId}}/pause",
        pause_generic,
        summary="Pause a generic task",
        rule=_UPDATE,
        audit="task.pause",
    ),
    post(
        f"{_T}/{{taskId}}/unpause",
        unpause_generic,
        summary="Let a generic task go on",
        rule=_UPDATE,
        audit="task.unpause",
    ),
)
