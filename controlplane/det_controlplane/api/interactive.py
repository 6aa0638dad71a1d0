"""Commands, notebooks, shells, TensorBoards and generic tasks."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from det_controlplane.api.auth import request_key, user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, MAX_BODY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import ListQuery, filters_of
from det_controlplane.api.model_definitions import FileBody, files_of
from det_controlplane.api.projects import ExperimentFilters
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


@dataclass(frozen=True)
class TaskQuery(ListQuery):
    users: list[str] = field(default_factory=list)
    user_ids: list[int] = field(default_factory=list)
    workspace_id: int = 0

    def filters(self) -> dict[str, Any]:
        return filters_of(
            users=self.users, user_ids=self.user_ids, workspace_id=self.workspace_id or None
        )


@dataclass(frozen=True)
class TreeQuery(TaskQuery):
    tree_of: str = ""


@dataclass(frozen=True)
class NewTask:
    config: dict[str, Any] = field(default_factory=dict)
    config_text: str = ""
    files: list[FileBody] = field(default_factory=list)
    context_id: str = ""
    template_name: str = ""
    workspace_id: int = 0
    preview: bool = False


@dataclass(frozen=True)
class NewTensorBoard(NewTask):
    experiment_ids: list[int] = field(default_factory=list)
    trial_ids: list[int] = field(default_factory=list)
    filters: ExperimentFilters = field(default_factory=ExperimentFilters)


@dataclass(frozen=True)
class GenericTaskBody:
    config: str = ""
    config_text: str = ""
    context_directory: list[FileBody] = field(default_factory=list)
    context_id: str = ""
    project_id: int = 0
    parent_id: str = ""
    forked_from: str = ""
    inherit_context: bool = False
    no_pause: bool = False
    preview: bool = False


@dataclass(frozen=True)
class PriorityBody:
    priority: int = 0


@dataclass(frozen=True)
class IdleReport:
    idle: bool = False


@dataclass(frozen=True)
class KillBody:
    kill_from_root: bool = False


def _list_handler(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request, query: TaskQuery) -> Answer:
        filters = query.filters() | request.held()
        return json_parts(interactive.listed(ctx, kind, query.page(), query.sort(), filters))

    return handler


def _launch_handler(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request, body: NewTask) -> Answer:
        submission = _submission(kind, body, request_key(request))
        act = interactive.preview if body.preview else interactive.launch
        return _launch_answer(kind, act(ctx, user_of(request), submission))

    return handler


def launch_tensorboard(ctx: Context, request: Request, body: NewTensorBoard) -> Answer:
    kind = TaskKind.TENSORBOARD
    submission = _submission(kind, body, request_key(request))
    filters = body.filters.values()
    tensorboard = TensorBoardRequest(
        body.experiment_ids, body.trial_ids, filters | request.held() if filters else {}
    )
    act = interactive.preview_tensorboard if body.preview else interactive.launch_tensorboard
    return _launch_answer(kind, act(ctx, user_of(request), submission, tensorboard))


def _launch_answer(kind: TaskKind, task: TaskAnswer) -> Answer:
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if task.exceeds_slots else []
    return json_response(
        {
            NAMES[kind]: task.shown,
            "config": task.config,
            "warnings": warnings,
            "configWarnings": task.warnings,
        }
    )


def _submission(kind: TaskKind, body: NewTask, key: str | None) -> Submission:
    return Submission(
        kind,
        config=_config(body),
        files=files_of(body.files),
        context_id=_uuid(body.context_id) if body.context_id else None,
        template=body.template_name,
        workspace_id=body.workspace_id,
        idempotency_key=key,
    )


def _config(body: NewTask) -> dict[str, Any]:
    """Return the configuration of a request. `configText` is YAML, and its values replace the values of `config`."""
    if not body.config_text.strip():
        return body.config
    return merge(load_yaml(body.config_text, what=_CONFIGURATION), body.config)


def _uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise BadRequest(f"contextId must be a UUID, not {value!r}") from e


def _one(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        answer = interactive.get(ctx, user_of(request), kind, request.param("taskId"))
        return json_response({NAMES[kind]: answer.shown, "config": answer.config})

    return handler


def _kill(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request) -> Answer:
        answer = interactive.kill(ctx, user_of(request), kind, request.param("taskId"))
        return _task_answer(kind, answer)

    return handler


def _set_priority(kind: TaskKind) -> Handler:
    def handler(ctx: Context, request: Request, body: PriorityBody) -> Answer:
        caller, task_id = user_of(request), request.param("taskId")
        return _task_answer(
            kind, interactive.set_priority(ctx, caller, kind, task_id, body.priority)
        )

    return handler


def _task_answer(kind: TaskKind, answer: TaskAnswer) -> Answer:
    return json_response({NAMES[kind]: answer.shown})


def _routes(kind: TaskKind) -> tuple[Route, ...]:
    name = NAMES[kind]
    base, one = f"/api/v1/{name}s", f"/api/v1/{name}s/{{taskId}}"
    return (
        get(
            base,
            _list_handler(kind),
            summary=f"List {name}s",
            rule=require(in_listing(Right.VIEW_NSC), task=TaskRule.READ),
        ),
        post(
            base,
            launch_tensorboard if kind is TaskKind.TENSORBOARD else _launch_handler(kind),
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


def report_idle(ctx: Context, request: Request, body: IdleReport) -> Answer:
    interactive.report_idle(ctx, user_of(request), request.param("taskId"), idle=body.idle)
    return EMPTY


def create_generic(ctx: Context, request: Request, body: GenericTaskBody) -> Answer:
    files = files_of(body.context_directory)
    upload = _uuid(body.context_id) if body.context_id else None
    new = NewGenericTask(
        _generic_config(body),
        Submission(TaskKind.GENERIC, {}, files, upload, idempotency_key=request_key(request)),
        project_id=body.project_id,
        parent_id=body.parent_id or None,
        forked_from=body.forked_from or None,
        inherit_context=body.inherit_context,
        no_pause=body.no_pause,
    )
    if body.preview:
        return json_response(_preview_answer(generic.prepared(ctx, user_of(request), new).resolved))
    task = generic.create(ctx, user_of(request), new)
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if task.exceeds_slots else []
    answer = {"taskId": task.task_id, "warnings": warnings, "configWarnings": task.warnings}
    return json_response(answer)


def _generic_config(body: GenericTaskBody) -> str:
    if not body.config_text.strip():
        return body.config
    below = load_yaml(body.config, what=_CONFIGURATION) if body.config.strip() else {}
    return json.dumps(merge(load_yaml(body.config_text, what=_CONFIGURATION), below))


def _preview_answer(resolved: Resolved) -> dict[str, Any]:
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"] if resolved.exceeds_slots else []
    config = redacted(resolved.config.of_kind(TaskKind.GENERIC))
    return {
        "taskId": "", "config": config, "warnings": warnings, "configWarnings": resolved.warnings,
    }  # fmt: skip


def list_generic(ctx: Context, request: Request, query: TreeQuery) -> Answer:
    filters = query.filters() | request.held()
    return json_parts(
        generic.listed(ctx, query.page(), query.sort(), filters, tree_of=query.tree_of)
    )


def generic_config(ctx: Context, request: Request) -> Answer:
    config = generic.config_of(ctx, user_of(request), request.param("taskId"))
    return json_response({"config": config})


def kill_generic(ctx: Context, request: Request, body: KillBody) -> Answer:
    task_id = request.param("taskId")
    generic.kill(ctx, user_of(request), task_id, from_root=body.kill_from_root)
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
