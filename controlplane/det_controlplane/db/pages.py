"""Listings: filter, order and page in one statement; PostgreSQL writes the JSON of each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from sqlalchemy import TextClause, text

from det_controlplane.core.paging import Page
from det_controlplane.db.engine import Tx


@dataclass(frozen=True, slots=True)
class Listing:
    """`name` is the field of the answer that holds the rows. `order` and `where` are ours, never a caller's text."""

    name: str
    item: str  # JSON
    source: str
    where: Sequence[str]
    order: str


class Start(Enum):
    FIRST, AFTER, FROM_END = "first", "after", "from end"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What of a page is part of its statement: PostgreSQL plans it once, knowing how long the page is and whether it
    is the first one, as most are."""

    start: Start
    most: int | None

    @classmethod
    def of(cls, page: Page) -> "Bounds":
        later = Start.FROM_END if page.offset < 0 else Start.AFTER
        return cls(later if page.offset else Start.FIRST, page.most)


def total(source: str, where: str) -> str:
    return f"(SELECT count(*) FROM {source} WHERE {where})"


def span(source: str, where: str, order: str, bounds: Bounds) -> str:
    """The rows of the page, in order."""
    first = {
        Start.FIRST: "0",
        Start.AFTER: "cast(:offset AS integer)",
        Start.FROM_END: f"greatest({total(source, where)} + cast(:offset AS integer), 0)",
    }[bounds.start]
    limit = "ALL" if bounds.most is None else bounds.most
    return f"FROM {source} WHERE {where} ORDER BY {order} OFFSET {first} LIMIT {limit}"


@lru_cache(maxsize=512)
def _statement(listing: Listing, where: str, bounds: Bounds) -> TextClause:
    page = span(listing.source, where, listing.order, bounds)
    return text(f"""
        SELECT {total(listing.source, where)} AS total,
            (SELECT string_agg(q.item::text, ',') FROM (SELECT {listing.item} AS item {page}) q) AS items
    """)


def ending(page: Page, total: int) -> str:
    """What follows the rows of an answer."""
    first = max(total + page.offset, 0) if page.offset < 0 else min(page.offset, total)
    last = total if page.most is None else min(first + page.most, total)
    return (
        f'],"pagination":{{"offset":{page.offset},"limit":{page.limit},'
        f'"startIndex":{first},"endIndex":{last},"total":{total}}}}}'
    )


def fetch(tx: Tx, listing: Listing, page: Page, params: Mapping[str, Any]) -> str:
    """The whole answer as JSON text."""
    where = " AND ".join(listing.where) or "true"
    statement = _statement(replace(listing, where=()), where, Bounds.of(page))
    found = tx.execute(statement, {**params, "offset": page.offset}).all()[0]
    return f'{{"{listing.name}":[{found.items or ""}{ending(page, found.total)}'
