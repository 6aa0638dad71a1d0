"""Reports of metrics that an agent delivers for several trials in one request (docs/reference/agent-protocol.md)."""

from collections.abc import Sequence

from det_controlplane.api import authorization, trials
from det_controlplane.api.body import Body
from det_controlplane.api.errors import ApiError
from det_controlplane.api.http import REPORT_BODY, Answer, Request, Response, json_response
from det_controlplane.api.router import Access, Shared, post
from det_controlplane.core.agent_protocol import ReportOutcome
from det_controlplane.services.context import Context
from det_controlplane.services.identity.principal import User

_Reports = list[Request]


def take(ctx: Context, request: Request) -> Answer:
    return _taken(ctx, [_reports_in(request)])[0]


def take_together(ctx: Context, requests: Sequence[Request]) -> list[Response | None]:
    """Store the reports of several agents' requests as if one had sent them all."""
    read = [_readable(request) for request in requests]
    answers = iter(_taken(ctx, [batch for batch in read if batch is not None]))
    return [None if batch is None else next(answers) for batch in read]


def _readable(request: Request) -> _Reports | None:
    try:
        return _reports_in(request)
    except ApiError:
        return None


def _reports_in(request: Request) -> _Reports:
    """Return the requests that tasks would have sent by themselves: each has its own token, and no other right."""
    return [
        Request(
            trials.REPORT.method,
            trials.REPORT.path,
            headers={
                "authorization": f"Bearer {report.required_text('token')}",
                "idempotency-key": report.text("key"),
            },
            body=report.text("report").encode("utf-8", "surrogatepass"),
            params={"trialId": str(report.integer("trialId"))},
        )
        for report in Body(request.json()).bodies("reports")
    ]


def _taken(ctx: Context, batches: Sequence[_Reports]) -> list[Response]:
    small = [report for batch in batches for report in batch if trials.may_share(report)]
    admitted = [
        r for r in authorization.authorize_together(ctx, trials.REPORT, small) if _is_of_task(r)
    ]
    answers = trials.report_together(ctx, admitted)
    stored = {id(r) for r, answer in zip(admitted, answers, strict=True) if answer is not None}
    return [_outcomes([id(report) in stored for report in batch]) for batch in batches]


def _is_of_task(request: Request) -> bool:
    return isinstance(request.principal, User) and request.principal.allocation_id is not None


def _outcomes(stored: Sequence[bool]) -> Response:
    told: list[ReportOutcome] = ["stored" if is_stored else "alone" for is_stored in stored]
    return json_response({"outcomes": told})


def _fits(request: Request) -> bool:
    return "content-encoding" not in request.headers


ROUTES = (
    post(
        "/agents/v1/reports",
        take,
        access=Access.AGENT,
        summary="Deliver metrics of several trials",
        largest=REPORT_BODY,
        shared=Shared(_fits, take_together),
    ),
)
