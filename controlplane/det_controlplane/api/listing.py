"""Paging and ordering parameters, the same for every listing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.core.paging import Page, Sort

ORDERS = ("", "ASC", "DESC")


@dataclass(frozen=True)
class PageQuery:
    """The parameters of a listing with a fixed order."""

    offset: int = 0
    limit: int = 0

    def page(self, default_limit: int = 100) -> Page:
        """Return the page; raise BadRequest for a wrong limit."""
        if self.limit < -2:
            raise BadRequest("limit must be -2 (count only), -1 (all), 0 (default) or positive")
        return Page(self.offset, self.limit, default_limit)


@dataclass(frozen=True)
class ListQuery(PageQuery):
    """The parameters of a listing that the caller can sort."""

    sort_by: str = field(default="", metadata={"also": ("sortByAttr", "sort_by_attr")})
    order_by: str = ""

    def sort(self) -> Sort:
        """Return the order; raise BadRequest for a wrong direction."""
        return Sort(self.sort_by, choice("orderBy", self.order_by, "ORDER_BY_", ORDERS) == "DESC")


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
        sort = self.sort()
        if not self.sort_by_metric:
            return sort
        if sort.by:
            raise BadRequest("sortByAttr and sortByMetric exclude each other: give one")
        return Sort(Sort.BY_METRIC, sort.descending, self.sort_by_metric)


def filters_of(**given: Any) -> dict[str, Any]:
    """Return the filters that a request names."""
    return {name: value for name, value in given.items() if value not in (None, "", [])}


def part_of(items: Sequence[Any], page: Page) -> tuple[Sequence[Any], dict[str, int]]:
    """Return a page of a list that is in memory."""
    pagination = page.pagination(len(items))
    return items[pagination["startIndex"] : pagination["endIndex"]], pagination


def choice(name: str, text: str, prefix: str, known: Sequence[str]) -> str:
    """Return the value of an enumeration without its prefix; the unspecified value is empty."""
    value = text.removeprefix(prefix).replace("UNSPECIFIED", "")
    if value not in known or (value and not text.startswith(prefix)):
        valid = ", ".join(prefix + each for each in known if each)
        raise BadRequest(f"{name} must be one of {valid}, not {text!r}")
    return value


_METRIC_TYPES = ("", "TRAINING", "VALIDATION", "PROFILING")


@dataclass(frozen=True)
class MetricGroupQuery:
    """The parameters that name a group of metrics; older clients name it by a type."""

    group: str = ""
    metric_type: str = ""

    def metric_group(self) -> str:
        kind = choice("metricType", self.metric_type, "METRIC_TYPE_", _METRIC_TYPES)
        return self.group or kind.lower()


CHECKPOINT_STATES = (
    "UNSPECIFIED", "ACTIVE", "COMPLETED", "ERROR", "DELETED", "PARTIALLY_DELETED",
)  # fmt: skip


def known_states(given: Iterable[object], known: Sequence[str]) -> list[str]:
    """Return the stored states for a filter. Derived states (QUEUED, RUNNING, …) match no rows."""
    states = [str(state).removeprefix("STATE_") for state in given]
    unknown = next((state for state in states if state not in known), None)
    if unknown is not None:
        valid = ", ".join(f"STATE_{name}" for name in known)
        raise BadRequest(f"states must be among {valid}, not {unknown[:80]!r}")
    return states


def source_type(text: str) -> str:
    """Return the full name of the kind of use of a checkpoint or model; empty for every kind."""
    prefix, kinds = "TRIAL_SOURCE_INFO_TYPE_", ("", "INFERENCE", "FINE_TUNING")
    kind = choice("trialSourceInfoType", text, prefix, kinds)
    return prefix + kind if kind else ""
