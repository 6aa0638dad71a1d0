"""Routes for containers about their allocation: preemption, rendezvous, all-gather, readiness."""

from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import (
    EMPTY,
    REPORT_BODY,
    Answer,
    Request,
    Wait,
    json_response,
    json_text,
)
from det_controlplane.api.router import Unaudited, get, post
from det_controlplane.core.people.permissions import TaskRule, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Unready
from det_controlplane.services.tasks import allocations, hangs, listing, replicas

_LONG_POLL_S = 60.0
_GATHER_WAIT_S = 25.0


@dataclass(frozen=True)
class PreemptionQuery:
    timeout_seconds: int = 0


@dataclass(frozen=True)
class GatherBody:
    request_uuid: str = ""
    num_peers: int = 1
    data: Any = None


@dataclass(frozen=True)
class RankProgress:
    age_seconds: float


@dataclass(frozen=True)
class ReplicaBody:
    steps_completed: int
    reported: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadyBody:
    user: str = ""


def preemption(ctx: Context, request: Request, query: PreemptionQuery) -> Answer:
    """Answer whether to preempt, by a long poll. To answer false early is fine: the client asks again at once."""
    allocation_id = request.param("allocationId")
    preempt = allocations.preempted(ctx, user_of(request), allocation_id)
    timeout_s = query.timeout_seconds
    if not preempt and timeout_s > 0 and not request.final:
        return Wait(f"allocation:{allocation_id}", min(timeout_s, _LONG_POLL_S))
    return json_response({"preempt": preempt})


def acknowledge(ctx: Context, request: Request) -> Answer:
    allocations.acknowledge_preemption(ctx, user_of(request), request.param("allocationId"))
    return EMPTY


def rendezvous(ctx: Context, request: Request) -> Answer:
    allocation_id = request.param("allocationId")
    try:
        info = allocations.rendezvous(
            ctx, user_of(request), allocation_id, request.param("resourcesId")
        )
    except Unready:
        if request.final:
            raise
        return Wait(f"allocation:{allocation_id}", _GATHER_WAIT_S)
    return json_response({"rendezvousInfo": info})


def all_gather(ctx: Context, request: Request, body: GatherBody) -> Answer:
    allocation_id, caller = request.param("allocationId"), user_of(request)
    try:
        gathered = allocations.all_gather(
            ctx, caller, allocation_id, body.request_uuid, body.num_peers, body.data
        )
    except Unready:
        if request.final:
            raise
        return Wait(f"allocation:{allocation_id}", _GATHER_WAIT_S)
    return json_text(f'{{"data":[{",".join(gathered)}]}}')


def ready(ctx: Context, request: Request, body: ReadyBody) -> Answer:
    allocations.ready(ctx, user_of(request), request.param("allocationId"), body.user)
    return EMPTY


def waiting(ctx: Context, request: Request) -> Answer:
    allocations.waiting(ctx, user_of(request), request.param("allocationId"))
    return EMPTY


def daemon(ctx: Context, request: Request) -> Answer:
    allocations.mark_daemon(
        ctx, user_of(request), request.param("allocationId"), request.param("resourcesId")
    )
    return EMPTY


def accepted(ctx: Context, request: Request) -> Answer:
    """Accept a report that this platform has no use for: agents already know addresses and devices."""
    allocations.find(ctx, user_of(request), request.param("allocationId"))
    return EMPTY


def progress(ctx: Context, request: Request, body: RankProgress) -> Answer:
    allocation_id = request.param("allocationId")
    age_s = hangs.report_progress(ctx, user_of(request), allocation_id, body.age_seconds)
    return json_response({"ageSeconds": age_s})


def hang(ctx: Context, request: Request) -> Answer:
    is_hung = hangs.report_hang(ctx, user_of(request), request.param("allocationId"))
    return json_response({"hung": is_hung})


def replica(ctx: Context, request: Request, body: ReplicaBody) -> Answer:
    allocation_id, caller = request.param("allocationId"), user_of(request)
    refusal = replicas.start_from(ctx, caller, allocation_id, body.steps_completed, body.reported)
    return json_response({"refusal": refusal})


def show(ctx: Context, request: Request) -> Answer:
    allocation = listing.allocation(ctx, request.param("allocationId"))
    return json_response({"allocation": allocation})


_A = "/api/v1/allocations/{allocationId}"
_REPORT = require(
    in_path(Right.UPDATE_EXPERIMENT, "allocation", "allocationId"),
    task=TaskRule.BY_SERVICE,
    own=True,
    report=True,
)
ROUTES = (
    get(
        _A,
        show,
        summary="One allocation",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "allocation", "allocationId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    get(
        f"{_A}/signals/preemption",
        preemption,
        summary="Whether to checkpoint and stop (long poll)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "allocation", "allocationId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    post(
        f"{_A}/signals/ack_preemption",
        acknowledge,
        summary="Acknowledge a preemption",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_A}/signals/pending_preemption",
        accepted,
        summary="Accepted, without effect here",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    get(
        f"{_A}/resources/{{resourcesId}}/rendezvous",
        rendezvous,
        summary="Addresses of all containers",
        rule=_REPORT,
    ),
    post(
        f"{_A}/resources/{{resourcesId}}/daemon",
        daemon,
        summary="This container does not hold the allocation",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_A}/progress",
        progress,
        summary="Report how long ago the ranks of a container made progress",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_A}/hang",
        hang,
        summary="End a run without progress",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_A}/all_gather",
        all_gather,
        summary="Exchange data among all peers",
        largest=REPORT_BODY,
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_A}/notify_container_running",
        all_gather,
        summary="Exchange data among all peers",
        largest=REPORT_BODY,
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(f"{_A}/ready", ready, summary="The task is ready", rule=_REPORT, audit=Unaudited.REPORT),
    post(f"{_A}/waiting", waiting, summary="The task waits", rule=_REPORT, audit=Unaudited.REPORT),
    post(
        f"{_A}/replica",
        replica,
        summary="Start this run from a replica, later than from its checkpoint",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_A}/proxy_address",
        accepted,
        summary="Accepted, without effect here",
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
    post(
        f"{_A}/acceleratorData",
        accepted,
        summary="Accepted, without effect here",
        largest=REPORT_BODY,
        rule=_REPORT,
        audit=Unaudited.REPORT,
    ),
)
