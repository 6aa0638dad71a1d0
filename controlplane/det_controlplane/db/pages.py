"""Listings: filter, order, page, and let PostgreSQL write the JSON in one statement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from det_controlplane.core.paging import Page
from det_controlplane.db.engine import Tx
from det_controlplane.db.sql import Statement, text


@dataclass(frozen=True, slots=True)
class Listing:
    """`name` is the field of the answer that holds the rows. `order` and `where` are ours, never a caller's text."""

    name: str
    item: str
    source: str
    where: Sequence[str]
    order: str


@lru_cache(maxsize=512)
def _statement(name: str, item: str, source: str, where: str, order: str) -> Statement:
    return text(f"""
        WITH matching AS MATERIALIZED (SELECT count(*) AS total FROM {source} WHERE {where}),
        page AS (SELECT total, CASE WHEN cast(:offset AS integer) < 0 THEN greatest(total + cast(:offset AS integer), 0) ELSE least(cast(:offset AS integer), total) END AS first
                 FROM matching)
        SELECT json_build_object('{name}', coalesce((SELECT json_agg(x.item) FROM (
                   SELECT {item} AS item FROM {source} WHERE {where} ORDER BY {order}
                   OFFSET (SELECT first FROM page) LIMIT cast(:limit AS integer)) x), '[]'::json),
               'pagination', json_build_object('offset', cast(:offset AS integer), 'limit', cast(:asked AS integer),
                   'startIndex', first, 'endIndex', least(first + coalesce(cast(:limit AS integer), total), total), 'total', total))::text
        FROM page
    """)


def fetch(tx: Tx, listing: Listing, page: Page, params: Mapping[str, Any]) -> str:
    """The whole answer as JSON text."""
    where = " AND ".join(listing.where) or "true"
    statement = _statement(listing.name, listing.item, listing.source, where, listing.order)
    answer: str = tx.value(
        statement, {**params, "offset": page.offset, "limit": page.most, "asked": page.limit}
    )
    return answer
