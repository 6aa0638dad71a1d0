"""The reasons why something waits. Determined has no such route."""

from det_controlplane.api.http import Answer, Request, json_response
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.queue import why


def show(ctx: Context, request: Request) -> Answer:
    reasons = why.of(ctx, request.param("kind"), request.param("id"))
    return json_response({"reasons": reasons})


ROUTES = (
    get(
        "/api/v1/why/{kind}/{id}",
        show,
        summary="Why something waits, runs or failed",
        rule=require(in_path(Right.VIEW_EXPERIMENT_METADATA, "{kind}", "id"), task=TaskRule.READ),
    ),
)
