"""Listings: filter, order and page in one statement; PostgreSQL writes the JSON of each row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from det_controlplane.core.paging import Page
from det_controlplane.db.engine import Database, Tx
from det_controlplane.db.sql import Statement, text


@dataclass(frozen=True, slots=True)
class Listing:
    """`name` is the field of the answer that holds the rows. `order` and `where` are ours, never a caller's text.

    Where a page is chosen first and what its rows show is joined afterwards, `chosen` are the columns that
    the page keeps and `shown` joins the rest to it."""

    name: str
    item: str  # JSON
    source: str
    where: Sequence[str]
    order: str
    chosen: str = ""
    shown: str = ""
    more: Sequence[str] = ()  # further columns of each row, with the alias of their table


@lru_cache(maxsize=512)
def _statement(listing: Listing, where: str, most: int | None) -> Statement:
    # The length is part of the statement: planned once, with it in mind.
    page = f"""FROM {listing.source} WHERE {where} ORDER BY {listing.order}
               OFFSET (SELECT first FROM bounds) LIMIT {"ALL" if most is None else most}"""
    chosen = ""
    rows = (
        f"SELECT q.*, row_number() OVER () AS place FROM (SELECT {listing.item} AS item {page}) q"
    )
    if listing.shown:
        chosen = f""", page AS MATERIALIZED (
            SELECT q.*, row_number() OVER () AS place FROM (SELECT {listing.chosen} {page}) q)"""
        rows = f"SELECT {', '.join((listing.item + ' AS item', 'place', *listing.more))} FROM page {listing.shown}"
    outer = [f"x.{column.rpartition('.')[2]}" for column in listing.more]
    return text(f"""
        WITH matching AS MATERIALIZED (SELECT count(*) AS total FROM {listing.source} WHERE {where}),
        bounds AS MATERIALIZED (SELECT total, CASE WHEN cast(:offset AS integer) < 0
            THEN greatest(total + cast(:offset AS integer), 0) ELSE least(cast(:offset AS integer), total) END AS first
            FROM matching){chosen}
        SELECT x.item::text AS item, {", ".join((*outer, "total", "first"))}
        FROM bounds LEFT JOIN ({rows}) x ON true ORDER BY x.place
    """)


@dataclass(frozen=True, slots=True)
class Found:
    rows: Sequence[Any]
    total: int
    first: int


def find(db: Tx | Database, listing: Listing, page: Page, params: Mapping[str, Any]) -> Found:
    where = " AND ".join(listing.where) or "true"
    statement = _statement(replace(listing, where=()), where, page.most)
    given = {**params, "offset": page.offset}
    rows = db.read(statement, given) if isinstance(db, Database) else db.rows(statement, given)
    return Found([row for row in rows if row.item is not None], rows[0].total, rows[0].first)


def answer(listing: Listing, page: Page, found: Found, items: Iterable[Sequence[str]]) -> str:
    """The whole answer as JSON text, of rows in one or more pieces each; put together at once, for it may be long."""
    last = found.total if page.most is None else min(found.first + page.most, found.total)
    parts = [f'{{"{listing.name}":[']
    for pieces in items:
        parts += pieces
        parts.append(",")
    if len(parts) > 1:
        parts.pop()
    parts.append(
        f'],"pagination":{{"offset":{page.offset},"limit":{page.limit},'
        f'"startIndex":{found.first},"endIndex":{last},"total":{found.total}}}}}'
    )
    return "".join(parts)


def fetch(db: Tx | Database, listing: Listing, page: Page, params: Mapping[str, Any]) -> str:
    found = find(db, listing, page, params)
    return answer(listing, page, found, ((row.item,) for row in found.rows))
