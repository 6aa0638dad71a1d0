"""Paging and ordering parameters, the same for every listing."""

from collections.abc import Mapping

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Request
from det_controlplane.db.pages import Page


def page_of(request: Request, default_limit: int = 100) -> Page:
    limit = request.integer("limit")
    if limit < -2:
        raise BadRequest("limit must be -2 (count only), -1 (all), 0 (default) or positive")
    return Page(request.integer("offset"), limit, default_limit)


def order_of(
    request: Request, columns: Mapping[str, str], default: str, parameter: str = "sortBy"
) -> str:
    """An ORDER BY of our own columns; ties go by id, in the same direction."""
    names = [parameter, "sort_by", "sortByAttr", "sort_by_attr"]
    asked = request.text(*names)
    if asked and asked not in columns and not asked.endswith("UNSPECIFIED"):
        known = ", ".join(sorted(columns))
        raise BadRequest(f"{parameter} must be one of {known}, not {asked!r}")
    column = columns.get(asked, columns[default])
    direction = direction_of(request)
    tie = columns[default]
    nulls = " NULLS LAST" if direction == "DESC" else ""
    return f"{column} {direction}{nulls}" + ("" if column == tie else f", {tie} {direction}")


def direction_of(request: Request) -> str:
    return "DESC" if request.text("orderBy", "order_by") == "ORDER_BY_DESC" else "ASC"


def states_of(request: Request) -> list[str]:
    """Stored states; derived ones (QUEUED, RUNNING, …) match nothing (facts §2.10)."""
    return [s.removeprefix("STATE_") for s in request.texts("states")]
