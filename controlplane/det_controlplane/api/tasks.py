"""Tasks: lists, and their context."""

from dataclasses import dataclass
from datetime import datetime

from det_controlplane.api.answers import OneTask
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Answer, Request, Response, json_response
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_listing, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.code import model_definitions
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import listing as task_listing
from det_controlplane.services.tasks import resources as task_resources

_POINTS, _MOST_POINTS = 300, 2_000


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
class ResourcesQuery:
    start_time: datetime | None = None
    max_datapoints: int = 0

    def most(self) -> int:
        """Return the number of points; raise BadRequest for a wrong one."""
        if not 0 <= self.max_datapoints <= _MOST_POINTS:
            raise BadRequest(
                f"maxDatapoints must be from 1 to {_MOST_POINTS}, not {self.max_datapoints}"
            )
        return self.max_datapoints or _POINTS


def resources(ctx: Context, request: Request, query: ResourcesQuery) -> Answer:
    """Return the measured resources of a task. Determined has no such route."""
    series = task_resources.of_task(ctx, request.param("taskId"), query.start_time, query.most())
    rows = [
        {
            "name": s.name, "unit": s.unit, "agentId": s.agent_id, "slotId": s.slot, "limit": s.limit,
            "timestamps": s.times, "seconds": s.seconds, "values": s.values,
        }
        for s in series
    ]  # fmt: skip
    return json_response({"series": rows})


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
        "/api/v1/tasks/{taskId}/resources",
        resources,
        summary="CPU, memory, disk, network and GPUs of a task over time",
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
