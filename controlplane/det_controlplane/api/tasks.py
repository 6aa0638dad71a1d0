"""Tasks: lists, and their context."""

from dataclasses import dataclass

from det_controlplane.api.answers import OneTask
from det_controlplane.api.http import Answer, Request, Response, json_response
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_listing, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.code import model_definitions
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import listing as task_listing


def list_tasks(ctx: Context, request: Request) -> Answer:
    allocations = task_listing.live_allocations(ctx, request.within)
    return Response(b'{"allocationIdToSummary":' + allocations.encode() + b"}")


def legacy_tasks(ctx: Context, request: Request) -> Answer:
    return Response(task_listing.live_allocations(ctx, request.within).encode())


def get_task(ctx: Context, request: Request) -> Answer:
    return json_response({"task": task_listing.task(ctx, request.param("taskId"))})


def accelerators(ctx: Context, request: Request) -> Answer:
    """Return the accelerators of a task, by the slots that agents reported."""
    rows = task_listing.accelerators(ctx, request.param("taskId"))
    return json_response({"acceleratorData": rows})


@dataclass(frozen=True)
class CodeQuery:
    url: bool = False


def context_directory(ctx: Context, request: Request, query: CodeQuery) -> Answer:
    code = model_definitions.of_task(ctx, request.param("taskId"), by_url=query.url)
    return json_response(code.to_json())


ROUTES = (
    get(
        "/api/v1/tasks",
        list_tasks,
        summary="Live allocations",
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    get(
        "/tasks",
        legacy_tasks,
        summary="Live allocations (older clients)",
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    get(
        "/api/v1/tasks/{taskId}",
        get_task,
        summary="One task with its allocations",
        response=OneTask,
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "task", "taskId"), task=TaskRule.READ, own=True
        ),
    ),
    get(
        "/api/v1/tasks/{taskId}/acceleratorData",
        accelerators,
        summary="Devices of a task",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "task", "taskId"), task=TaskRule.READ, own=True
        ),
    ),
    get(
        "/api/v1/tasks/{taskId}/context_directory",
        context_directory,
        summary="Files of a task, base64",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "task", "taskId"), task=TaskRule.READ, own=True
        ),
    ),
)
