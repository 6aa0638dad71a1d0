"""The list of all work: experiments and tasks of every kind in one order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.people.roles import Right
from det_controlplane.db.scheduling import work_pages
from det_controlplane.db.scheduling.work_pages import Cursor, Seen
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.principal import User

_FIRST_ORDER = "SORT_BY_SUBMISSION_TIME"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Active work is shown in the state of its furthest run.
LIVE_STATES = ("QUEUED", "PULLING", "STARTING", "RUNNING")
_STOPPING = ("STOPPING_COMPLETED", "STOPPING_CANCELED", "STOPPING_KILLED", "STOPPING_ERROR", "STOPPING_PAUSED")  # fmt: skip
STATES = (
    "ACTIVE", "PAUSED", "STOPPING", "COMPLETED", "CANCELED", "ERROR", "DELETING", "DELETE_FAILED", *LIVE_STATES,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkFilter:
    """The conditions of a listing. Empty ones are ignored."""

    types: Sequence[str] = ()
    states: Sequence[str] = ()
    users: Sequence[str] = ()
    user_ids: Sequence[int] = ()
    workspace_ids: Sequence[int] = ()
    pools: Sequence[str] = ()
    text: str = ""
    since: datetime | None = None
    archived: bool = False  # also archived experiments

    def filters(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "types": list(self.types),
            "users": list(self.users),
            "user_ids": list(self.user_ids),
            "workspace_ids": list(self.workspace_ids),
            "pools_named": list(self.pools),
            "text": self.text,
            "since": self.since,
            "unarchived": not self.archived or None,
        }
        if self.states:
            stored = [s for s in self.states if s not in (*LIVE_STATES, "STOPPING")]
            found["states"] = stored + (list(_STOPPING) if "STOPPING" in self.states else [])
            found["live_states"] = [s for s in self.states if s in LIVE_STATES]
        chosen = {name: value for name, value in found.items() if value not in (None, "", [])}
        return chosen | ({"states": found["states"]} if self.states else {})


def work(
    ctx: Context,
    user: User,
    within: Sequence[int] | None,
    page: Page,
    sort: Sort,
    chosen: WorkFilter,
    after: str = "",
) -> Iterator[str]:
    """Return a page of the work that a user may see. `within` has the workspaces with visible experiments.

    With a cursor, the page begins after the row that has it."""
    cursor = _cursor(after) if after else None
    if cursor is not None and (sort.by not in ("", _FIRST_ORDER) or page.offset):
        raise Invalid(f"after needs the order {_FIRST_ORDER} and no offset")
    priorities = {
        p.pool_name: p.scheduler.default_priority
        for p in ctx.config.resource_pools
        if p.scheduler.default_priority is not None
    }
    seen = Seen(within, user.grants.workspaces(Right.VIEW_NSC))
    filters = chosen.filters()
    return work_pages.find(ctx.db, page, sort, filters, seen, priorities, cursor)


def _cursor(text: str) -> Cursor:
    micros, _, job_id = text.partition(".")
    try:
        return Cursor(_EPOCH + timedelta(microseconds=int(micros)), UUID(job_id))
    except (ValueError, OverflowError) as e:
        raise Invalid(f"after must be the cursor of a row of this list, not {text[:80]!r}") from e
