"""Reports of metrics that an agent delivers for several trials in one request (docs/reference/agent-protocol.md)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from det_controlplane.api import authorization, trials
from det_controlplane.api.errors import ApiError, BadRequest
from det_controlplane.api.http import (
    FORM_BODY,
    REPORT_BODY,
    Answer,
    Request,
    Response,
    bearer_token,
    json_response,
)
from det_controlplane.api.inputs import read_body
from det_controlplane.api.router import Access, Shared, Unaudited, post
from det_controlplane.core.agent_protocol import ReportOutcome
from det_controlplane.services import stored_pools
from det_controlplane.services.context import Context
from det_controlplane.services.identity import authentication

_MOST = 1_000  # an agent sends one of each of its containers


@dataclass(frozen=True, slots=True)
class _Batch:
    """Hold an agent's token and the requests that its tasks would have sent by themselves."""

    agent_token: str
    reports: list[Request]


@dataclass(frozen=True)
class TaskReport:
    token: str
    trial_id: int = 0
    key: str = ""
    report: str = ""

    def request(self) -> Request:
        """Return the request that the task would have sent."""
        if not self.token.isascii():
            raise BadRequest("reports[].token is none that this cluster gives")
        return Request(
            trials.REPORT.method,
            trials.REPORT.path,
            headers={"authorization": f"Bearer {self.token}", "idempotency-key": self.key},
            body=self.report.encode("utf-8", "surrogatepass"),
            params={"trialId": str(self.trial_id)},
        )


@dataclass(frozen=True)
class TaskReports:
    reports: list[TaskReport] = field(default_factory=list, metadata={"most": _MOST})


def take(ctx: Context, request: Request, body: TaskReports) -> Answer:
    batch = _batch(request, body)
    results = _store(ctx, [batch])
    if not any(results[0]):
        authentication.agent_of(ctx, batch.agent_token)  # lists the agents of the relay
    return _outcomes(results[0])


def take_together(ctx: Context, requests: Sequence[Request]) -> list[Response | None]:
    """Store the reports of several agents' requests as if one had sent them all."""
    read = [_readable(request) for request in requests]
    results = iter(_store(ctx, [batch for batch in read if batch is not None]))
    by_request = [None if batch is None else next(results) for batch in read]
    return [_outcomes(each) if each and any(each) else None for each in by_request]


def _readable(request: Request) -> _Batch | None:
    try:
        return _batch(request, read_body(TaskReports, request))
    except ApiError:
        return None


def _batch(request: Request, body: TaskReports) -> _Batch:
    return _Batch(bearer_token(request), [report.request() for report in body.reports])


def _store(ctx: Context, batches: Sequence[_Batch]) -> list[list[bool]]:
    """Store the reports that can share transactions. Return for each report of each batch whether it is stored.

    A report has the rights of its task, and must come from the agent that runs the task."""
    small = [(b.agent_token, r) for b in batches for r in b.reports if trials.may_share(r)]
    tasks = authentication.tasks_of(ctx, [(agent, bearer_token(r)) for agent, r in small])
    own = [r for agent, r in small if (agent, bearer_token(r)) in tasks]
    callers = {token: task for (_, token), task in tasks.items()}
    ctx = stored_pools.at(ctx, max((task.pools for task in callers.values()), default=0))
    admitted = authorization.authorize_known(ctx, trials.REPORT, own, callers)
    answers = trials.report_together(ctx, admitted)
    ids = {id(r) for r, answer in zip(admitted, answers, strict=True) if answer is not None}
    return [[id(report) in ids for report in batch.reports] for batch in batches]


def _outcomes(results: Sequence[bool]) -> Response:
    outcomes: list[ReportOutcome] = ["stored" if is_stored else "alone" for is_stored in results]
    return json_response({"outcomes": outcomes})


def _fits(request: Request) -> bool:
    return "content-encoding" not in request.headers and len(request.body) <= FORM_BODY


ROUTES = (
    post(
        "/agents/v1/reports",
        take,
        access=Access.AGENT_BY_HANDLER,
        summary="Deliver metrics of several trials",
        largest=REPORT_BODY,
        shared=Shared(_fits, take_together),
        audit=Unaudited.REPORT,
    ),
)
