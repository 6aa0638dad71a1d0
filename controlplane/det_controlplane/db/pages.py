"""Listings: filter, order and page in one statement; PostgreSQL writes the JSON of each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from det_controlplane.core.paging import Page
from det_controlplane.db.engine import Tx
from det_controlplane.db.sql import Statement, text


@dataclass(frozen=True, slots=True)
class Listing:
    """`name` is the field of the answer that holds the rows. `order` and `where` are ours, never a caller's text."""

    name: str
    item: str  # JSON
    source: str
    where: Sequence[str]
    order: str


def bounds(source: str, where: str) -> str:
    """The first part of a statement: `bounds` is one row, how many there are in all and which of them is first."""
    return f"""
        WITH matching AS MATERIALIZED (SELECT count(*) AS total FROM {source} WHERE {where}),
        bounds AS MATERIALIZED (SELECT total, CASE WHEN cast(:offset AS integer) < 0
            THEN greatest(total + cast(:offset AS integer), 0) ELSE least(cast(:offset AS integer), total) END AS first
            FROM matching)"""


def span(source: str, where: str, order: str, most: int | None) -> str:
    """The page itself. Its length is part of the statement: planned once, with it in mind."""
    return f"""FROM {source} WHERE {where} ORDER BY {order}
        OFFSET (SELECT first FROM bounds) LIMIT {"ALL" if most is None else most}"""


@lru_cache(maxsize=512)
def _statement(listing: Listing, where: str, most: int | None) -> Statement:
    page = span(listing.source, where, listing.order, most)
    return text(f"""{bounds(listing.source, where)}
        SELECT x.item::text AS item, total, first
        FROM bounds LEFT JOIN (
            SELECT q.*, row_number() OVER () AS place FROM (SELECT {listing.item} AS item {page}) q
        ) x ON true ORDER BY x.place
    """)


def ending(page: Page, total: int, first: int) -> str:
    """What follows the rows of an answer."""
    last = total if page.most is None else min(first + page.most, total)
    return (
        f'],"pagination":{{"offset":{page.offset},"limit":{page.limit},'
        f'"startIndex":{first},"endIndex":{last},"total":{total}}}}}'
    )


def fetch(tx: Tx, listing: Listing, page: Page, params: Mapping[str, Any]) -> str:
    """The whole answer as JSON text."""
    where = " AND ".join(listing.where) or "true"
    statement = _statement(replace(listing, where=()), where, page.most)
    rows = tx.rows(statement, {**params, "offset": page.offset})
    items = ",".join([row.item for row in rows if row.item is not None])
    return f'{{"{listing.name}":[{items}{ending(page, rows[0].total, rows[0].first)}'
