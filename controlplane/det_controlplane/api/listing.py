"""Paging and ordering parameters, the same for every listing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Request
from det_controlplane.core.paging import Page, Sort

_ORDERS = ("", "ASC", "DESC")


@dataclass(frozen=True)
class PageQuery:
    """The parameters of a listing with a fixed order."""

    offset: int = 0
    limit: int = 0

    def page(self, default_limit: int = 100) -> Page:
        """Return the page; raise BadRequest for a wrong limit."""
        return _page(self.offset, self.limit, default_limit)


@dataclass(frozen=True)
class ListQuery(PageQuery):
    """The parameters of a listing that the caller can sort."""

    sort_by: str = field(default="", metadata={"also": ("sortByAttr", "sort_by_attr")})
    order_by: str = ""

    def sort(self) -> Sort:
        """Return the order; raise BadRequest for a wrong direction."""
        return Sort(self.sort_by, choice("orderBy", self.order_by, "ORDER_BY_", _ORDERS) == "DESC")


@dataclass(frozen=True)
class OwnerQuery(ListQuery):
    """The parameters of a listing of objects that have a name and an owner and can be archived."""

    name: str = ""
    archived: bool | None = None
    users: list[str] = field(default_factory=list)
    user_ids: list[int] = field(default_factory=list)

    def filters(self) -> dict[str, Any]:
        """Return the filters that the query names."""
        return filters_of(
            name=self.name, archived=self.archived, users=self.users, user_ids=self.user_ids
        )


@dataclass(frozen=True)
class CheckpointQuery(ListQuery):
    """The parameters of a listing of checkpoints."""

    states: list[str] = field(default_factory=list)
    sort_by_metric: str = ""

    def checkpoint_sort(self) -> Sort:
        """Return the order by an attribute, or by a validation metric that the caller names."""
        return _checkpoint_sort(self.sort(), self.sort_by_metric)


def filters_of(**given: Any) -> dict[str, Any]:
    """Return the filters that a request names."""
    return {name: value for name, value in given.items() if value not in (None, "", [])}


def owner_filters(request: Request) -> dict[str, Any]:
    """Return the filters of everything that has a name and an owner and may be archived."""
    return filters_of(
        name=request.text("name"),
        archived=request.flag("archived"),
        users=request.texts("users"),
        user_ids=request.integers("userIds", "user_ids"),
    )


def page_of(request: Request, default_limit: int = 100) -> Page:
    return _page(request.integer("offset"), request.integer("limit"), default_limit)


def _page(offset: int, limit: int, default_limit: int) -> Page:
    if limit < -2:
        raise BadRequest("limit must be -2 (count only), -1 (all), 0 (default) or positive")
    return Page(offset, limit, default_limit)


def part_of(items: Sequence[Any], page: Page) -> tuple[Sequence[Any], dict[str, int]]:
    """Return a page of a list that is in memory."""
    pagination = page.pagination(len(items))
    return items[pagination["startIndex"] : pagination["endIndex"]], pagination


def sort_of(request: Request) -> Sort:
    by = request.text("sortBy", "sort_by", "sortByAttr", "sort_by_attr")
    return Sort(by, is_descending(request))


def is_descending(request: Request) -> bool:
    return choice_of(request, "ORDER_BY_", _ORDERS, "orderBy", "order_by") == "DESC"


def choice_of(request: Request, prefix: str, known: Sequence[str], *names: str) -> str:
    """Return the value of an enumeration without its prefix; the unspecified one is empty."""
    return choice(names[0], request.text(*names), prefix, known)


def choice(name: str, text: str, prefix: str, known: Sequence[str]) -> str:
    """Return the value of an enumeration without its prefix; the unspecified value is empty."""
    value = text.removeprefix(prefix).replace("UNSPECIFIED", "")
    if value not in known or (value and not text.startswith(prefix)):
        valid = ", ".join(prefix + each for each in known if each)
        raise BadRequest(f"{name} must be one of {valid}, not {text!r}")
    return value


_METRIC_TYPES = ("", "TRAINING", "VALIDATION", "PROFILING")


def metric_group_of(request: Request) -> str:
    """Return the group of metrics that a request names; older clients name it by a type."""
    kind = choice_of(request, "METRIC_TYPE_", _METRIC_TYPES, "metricType", "metric_type")
    return request.text("group") or kind.lower()


CHECKPOINT_STATES = (
    "UNSPECIFIED", "ACTIVE", "COMPLETED", "ERROR", "DELETED", "PARTIALLY_DELETED",
)  # fmt: skip


def states_of(request: Request, known: Sequence[str]) -> list[str]:
    """Return the stored states for a filter. Derived states (QUEUED, RUNNING, …) match no rows."""
    return known_states(request.texts("states"), known)


def known_states(given: Iterable[object], known: Sequence[str]) -> list[str]:
    states = [str(state).removeprefix("STATE_") for state in given]
    unknown = next((state for state in states if state not in known), None)
    if unknown is not None:
        valid = ", ".join(f"STATE_{name}" for name in known)
        raise BadRequest(f"states must be among {valid}, not {unknown[:80]!r}")
    return states


def source_type(text: str) -> str:
    """Return the full name of the kind of use of a checkpoint or model; empty for every kind."""
    prefix, known = "TRIAL_SOURCE_INFO_TYPE_", ("", "INFERENCE", "FINE_TUNING")
    kind = choice("trialSourceInfoType", text, prefix, known)
    return prefix + kind if kind else ""


def checkpoint_sort_of(request: Request) -> Sort:
    """Return the order of checkpoints: by an attribute, or by a validation metric that the caller names."""
    return _checkpoint_sort(sort_of(request), request.text("sortByMetric", "sort_by_metric"))


def _checkpoint_sort(sort: Sort, metric: str) -> Sort:
    if not metric:
        return sort
    if sort.by:
        raise BadRequest("sortByAttr and sortByMetric exclude each other: give one")
    return Sort(Sort.BY_METRIC, sort.descending, metric)
