"""The job queue."""

from typing import Any

from det_controlplane.api.body import Body
from det_controlplane.api.http import EMPTY, Answer, Request, json_response
from det_controlplane.api.listing import page_of, part_of, sort_of, states_of
from det_controlplane.api.router import get, post
from det_controlplane.core.people.permissions import TaskRule, in_body, in_listing, require
from det_controlplane.core.people.roles import Right
from det_controlplane.core.schedule.queue_changes import QueueUpdate
from det_controlplane.services.context import Context
from det_controlplane.services.queue import jobs, queue_changes

_STATES = ("UNSPECIFIED", "QUEUED", "SCHEDULED", "SCHEDULED_BACKFILLED")
_LIMITED = (
    "jobId", "type", "resourcePool", "workspaceId", "isPreemptible", "requestedSlots", "allocatedSlots", "summary",
    "priority", "weight", "progress", "expectedStart",
)  # fmt: skip


def list_jobs(ctx: Context, request: Request) -> Answer:
    pool = request.text("resourcePool", "resource_pool")
    queue = jobs.queue_of(ctx, pool, descending=sort_of(request).descending)
    entries, states = queue.entries, states_of(request, _STATES)
    if states:
        entries = [entry for entry in entries if entry.state.removeprefix("STATE_") in states]
    if not request.path.endswith("-v2"):
        entries = [entry for entry in entries if _is_seen(request, entry.workspace_id)]
    part, pagination = part_of(entries, page_of(request))
    shown = jobs.shown(ctx, queue, part)
    if not request.path.endswith("-v2"):
        return json_response({"jobs": shown, "pagination": pagination})
    rows = [
        {"full": j} if _is_seen(request, j["workspaceId"]) else {"limited": _limited(j)}
        for j in shown
    ]
    return json_response({"jobs": rows, "pagination": pagination})


def _is_seen(request: Request, workspace_id: int) -> bool:
    return request.within is None or workspace_id in request.within


def _limited(job: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a job that every user may see: how much of the queue is before theirs."""
    return {name: job[name] for name in _LIMITED if name in job}


def update(ctx: Context, request: Request) -> Answer:
    updates = [
        QueueUpdate(
            job_id=u.required_text("jobId"),
            priority=u.optional_integer("priority"),
            weight=u.number("weight"),
            resource_pool=u.optional_text("resourcePool"),
            ahead_of=u.optional_text("aheadOf"),
            behind_of=u.optional_text("behindOf"),
        )
        for u in Body(request.json()).bodies("updates")
    ]
    queue_changes.update(ctx, updates)
    return EMPTY


def stats(ctx: Context, request: Request) -> Answer:
    pools = request.texts("resourcePools", "resource_pools")
    return json_response({"results": jobs.stats(ctx, pools)})


ROUTES = (
    get(
        "/api/v1/job-queues-v2",
        list_jobs,
        summary="Jobs of a pool in the order of the queue",
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    get(
        "/api/v1/job-queues",
        list_jobs,
        summary="The queue of a pool",
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    post(
        "/api/v1/job-queues",
        update,
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
)
