"""The audit log."""

from dataclasses import dataclass

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import Answer, Request, json_parts
from det_controlplane.api.listing import ListQuery, filters_of
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.organization import audit_listing as listing


@dataclass(frozen=True)
class EntryQuery(ListQuery):
    username: str = ""
    object: str = ""
    action: str = ""
    since: str = ""
    until: str = ""


def list_entries(ctx: Context, request: Request, query: EntryQuery) -> Answer:
    filters = filters_of(
        username=query.username,
        object=query.object,
        action=query.action,
        since=listing.time_of(ctx, "since", query.since),
        until=listing.time_of(ctx, "until", query.until),
    )
    entries = listing.listed(ctx, user_of(request), query.page(), query.sort(), filters)
    return json_parts(entries)


ROUTES = (
    get(
        "/api/v1/audit",
        list_entries,
        summary="Who changed what (administrators)",
        from_replica=True,
        rule=require(in_cluster(Right.VIEW_MASTER_CONFIG), task=TaskRule.NEVER),
    ),
)
