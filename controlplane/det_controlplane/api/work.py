"""The list of all work: ours, not Determined's."""

from dataclasses import dataclass, field
from datetime import datetime

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import Answer, Request, json_parts
from det_controlplane.api.listing import ListQuery, choice, known_states
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, by_service, in_listing, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.queue import work
from det_controlplane.services.queue.work import STATES, WorkFilter

_TYPES = ("EXPERIMENT", "COMMAND", "NOTEBOOK", "SHELL", "TENSORBOARD", "GENERIC")


@dataclass(frozen=True)
class WorkQuery(ListQuery):
    types: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    user_ids: list[int] = field(default_factory=list)
    workspace_ids: list[int] = field(default_factory=list)
    resource_pools: list[str] = field(default_factory=list)
    text: str = ""
    since: datetime | None = None
    archived: bool = False
    after: str = ""

    def chosen(self) -> WorkFilter:
        """Return the filter; raise BadRequest for an unknown type or state."""
        return WorkFilter(
            types=[choice("types", name, "TYPE_", _TYPES) for name in self.types],
            states=known_states(self.states, STATES),
            users=self.users,
            user_ids=self.user_ids,
            workspace_ids=self.workspace_ids,
            pools=self.resource_pools,
            text=self.text,
            since=self.since,
            archived=self.archived,
        )


def list_work(ctx: Context, request: Request, query: WorkQuery) -> Answer:
    parts = work.work(
        ctx, user_of(request), request.within, query.page(), query.sort(), query.chosen(), query.after
    )  # fmt: skip
    return json_parts(parts)


ROUTES = (
    get(
        "/api/v1/work",
        list_work,
        summary="Experiments and tasks of all kinds",
        from_replica=True,
        rule=require(
            in_listing(Right.VIEW_EXPERIMENT_METADATA),
            by_service(Right.VIEW_NSC),
            task=TaskRule.READ,
        ),
    ),
)
