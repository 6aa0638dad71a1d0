"""The audit log."""

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import Answer, Request, json_parts
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.organization import audit_listing as listing


def list_entries(ctx: Context, request: Request) -> Answer:
    filters = filters_of(
        username=request.text("username"),
        object=request.text("object"),
        action=request.text("action"),
        since=listing.time_of(ctx, "since", request.text("since")),
        until=listing.time_of(ctx, "until", request.text("until")),
    )
    page, sort = page_of(request), sort_of(request)
    return json_parts(listing.listed(ctx, user_of(request), page, sort, filters))


ROUTES = (
    get(
        "/api/v1/audit",
        list_entries,
        summary="Who changed what (administrators)",
        from_replica=True,
        rule=require(in_cluster(Right.VIEW_MASTER_CONFIG), task=TaskRule.NEVER),
    ),
)
