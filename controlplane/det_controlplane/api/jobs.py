"""The job queue, and the reasons why its work waits."""

from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.answers import Done, JobEntries, Jobs
from det_controlplane.api.auth import user_of
from det_controlplane.api.http import EMPTY, Answer, Request, json_response
from det_controlplane.api.listing import ListQuery, known_states
from det_controlplane.api.router import get, post
from det_controlplane.core.people.permissions import (
    TaskRule,
    in_body,
    in_listing,
    in_path,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.core.schedule.queue_changes import QueueUpdate
from det_controlplane.services.context import Context
from det_controlplane.services.queue import jobs, queue_changes, why

_STATES = ("UNSPECIFIED", "QUEUED", "SCHEDULED", "SCHEDULED_BACKFILLED")
_LIMITED = (
    "jobId", "type", "resourcePool", "workspaceId", "isPreemptible", "requestedSlots", "allocatedSlots", "summary",
    "priority", "weight", "progress", "expectedStart",
)  # fmt: skip


@dataclass(frozen=True)
class QueueQuery(ListQuery):
    resource_pool: str = ""
    states: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StatsQuery:
    resource_pools: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class JobChange:
    job_id: str
    priority: int | None = None
    weight: float | None = None
    resource_pool: str | None = None
    ahead_of: str | None = None
    behind_of: str | None = None


@dataclass(frozen=True)
class QueueUpdates:
    updates: list[JobChange] = field(default_factory=list)


def list_jobs(ctx: Context, request: Request, query: QueueQuery) -> Answer:
    is_v2 = request.path.endswith("-v2")
    part = jobs.queue_of(
        ctx,
        query.resource_pool,
        query.page(),
        descending=query.sort().descending,
        states=known_states(query.states, _STATES),
        within=None if is_v2 else request.within,
    )
    rows = part.jobs
    if is_v2:
        rows = [
            {"full": j} if _is_seen(request, j["workspaceId"]) else {"limited": _limit_fields(j)}
            for j in part.jobs
        ]
    return json_response({"jobs": rows, "pagination": part.pagination})


def _is_seen(request: Request, workspace_id: int) -> bool:
    return request.within is None or workspace_id in request.within


def _limit_fields(job: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a job that every user may see: how much of the queue is before theirs."""
    return {name: job[name] for name in _LIMITED if name in job}


def update(ctx: Context, request: Request, body: QueueUpdates) -> Answer:
    updates = [
        QueueUpdate(
            job_id=change.job_id,
            priority=change.priority,
            weight=change.weight,
            resource_pool=change.resource_pool,
            ahead_of=change.ahead_of,
            behind_of=change.behind_of,
        )
        for change in body.updates
    ]
    queue_changes.update(ctx, user_of(request), updates)
    return EMPTY


def stats(ctx: Context, request: Request, query: StatsQuery) -> Answer:
    return json_response({"results": jobs.stats(ctx, query.resource_pools)})


def explain(ctx: Context, request: Request) -> Answer:
    """Return the reasons why something waits. Determined has no such route."""
    reasons = why.of(ctx, request.param("kind"), request.param("id"))
    return json_response({"reasons": reasons})


ROUTES = (
    get(
        "/api/v1/job-queues-v2",
        list_jobs,
        summary="Jobs of a pool in the order of the queue",
        response=JobEntries,
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    get(
        "/api/v1/job-queues",
        list_jobs,
        summary="The queue of a pool",
        response=Jobs,
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    post(
        "/api/v1/job-queues",
        update,
        response=Done,
        summary="Priority, weight, pool or place of jobs",
        rule=require(in_body(Right.UPDATE_EXPERIMENT, "job", "updates.jobId"), task=TaskRule.NEVER),
        audit="job-queue.create",
    ),
    get(
        "/api/v1/job-queues/stats",
        stats,
        summary="How many jobs wait and run",
        rule=require(task=TaskRule.READ),
    ),
    get(
        "/api/v1/why/{kind}/{id}",
        explain,
        summary="Why something waits, runs or failed",
        rule=require(in_path(Right.VIEW_EXPERIMENT_METADATA, "{kind}", "id"), task=TaskRule.READ),
    ),
)
