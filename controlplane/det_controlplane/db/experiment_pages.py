"""The listing of experiments as JSON text.

The database tells of a page only which experiments it has, in which version, and what changes by itself: their states
and durations. All else is in texts that are kept as long as their version stands.
"""

import re
from functools import lru_cache
from typing import Any

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages, views
from det_controlplane.db.engine import Database
from det_controlplane.db.experiment_texts import ExperimentTexts
from det_controlplane.db.pages import Bounds
from det_controlplane.db.sql import Statement, text

ORDER = {
    "SORT_BY_ID": "e.id", "SORT_BY_DESCRIPTION": "e.description", "SORT_BY_START_TIME": "e.started_at",
    "SORT_BY_END_TIME": "e.ended_at", "SORT_BY_STATE": "e.state", "SORT_BY_PROGRESS": "e.progress",
    "SORT_BY_USER": "u.username", "SORT_BY_NAME": "e.name", "SORT_BY_FORKED_FROM": "e.parent_id",
    "SORT_BY_RESOURCE_POOL": "j.pool", "SORT_BY_PROJECT_ID": "e.project_id",
    "SORT_BY_SEARCHER_METRIC_VAL": "e.best_metric",
    "SORT_BY_NUM_TRIALS": "(SELECT count(*) FROM trials t WHERE t.experiment_id = e.id)",
    "SORT_BY_CHECKPOINT_COUNT":
        "(SELECT count(*) FROM checkpoints c WHERE c.experiment_id = e.id AND c.state = 'COMPLETED')",
    "SORT_BY_CHECKPOINT_SIZE": "(SELECT sum(c.size) FROM checkpoints c WHERE c.experiment_id = e.id)",
}  # fmt: skip
# Each filter with the parameter that feeds it; only those that are given become part of the statement.
FILTERS = {
    "description": "e.description ILIKE '%' || :description || '%'",
    "name": "e.name ILIKE '%' || :name || '%'",
    "labels": "e.labels @> cast(:labels AS text[])",
    "archived": "e.archived = :archived",
    "states": "e.state::text = ANY(cast(:states AS text[]))",
    "users": "u.username = ANY(cast(:users AS text[]))",
    "user_ids": "e.user_id = ANY(cast(:user_ids AS integer[]))",
    "project_id": "e.project_id = :project_id",
    "visible": "cast(:visible AS boolean) AND NOT p.archived AND NOT w.archived",
    "id_lt": "e.id < :id_lt", "id_lte": "e.id <= :id_lte", "id_gt": "e.id > :id_gt", "id_gte": "e.id >= :id_gte",
    "id_in": "e.id = ANY(cast(:id_in AS integer[]))",
    "id_not_in": "NOT e.id = ANY(cast(:id_not_in AS integer[]))",
}  # fmt: skip

# What choosing a page of experiments may need, by the alias that a filter or an order names.
_JOINED = {
    "j": "JOIN jobs j ON j.id = e.job_id", "u": "JOIN users u ON u.id = e.user_id",
    "p": "JOIN projects p ON p.id = e.project_id", "w": "JOIN workspaces w ON w.id = p.workspace_id",
}  # fmt: skip
# Between the pieces of an item, and between items: characters that no piece has.
_PIECE, _ITEM = "|", ","

_ITEMS = f"""(SELECT string_agg(concat(e.id, '.', e.text_version, '{_PIECE}', {views.EXPERIMENT_STATE}, '{_PIECE}',
    {views.EXPERIMENT_DURATION}), '{_ITEM}') FROM page e)"""


@lru_cache(maxsize=512)
def _page(source: str, where: str, order: str, bounds: Bounds) -> Statement:
    """One row. A page keeps its order: nothing is joined to it."""
    chosen = "e.id, e.text_version, e.state, e.unmanaged, e.job_id, e.started_at, e.ended_at"
    return text(f"""
        WITH page AS (SELECT {chosen} {pages.span(source, where, order, bounds)})
        SELECT {pages.total(source, where)} AS total, (SELECT names_version FROM cluster) AS names, {_ITEMS} AS items
    """)


def find(
    db: Database, texts: ExperimentTexts, page: Page, sort: Sort, filters: dict[str, Any]
) -> bytes:
    """The whole answer. It may be long: it is put together once, of pieces that are bytes already."""
    where = " AND ".join(FILTERS[name] for name in filters) or "true"
    order = sort.sql(ORDER, "SORT_BY_ID")
    joins = [
        join for alias, join in _JOINED.items() if re.search(rf"\b{alias}\.", f"{where} {order}")
    ]
    source = " ".join(("experiments e", *joins))
    statement = _page(source, where, order, Bounds.of(page))
    found = db.read(statement, {**filters, "offset": page.offset})[0]
    items = [item.split(_PIECE) for item in found.items.split(_ITEM)] if found.items else []
    begun = texts.of(db, found.names, [version for version, _, _ in items])
    parts: list[bytes] = []
    for version, state, duration in items:
        if version in begun:
            ending = f',"state":"{state}","duration":{duration}}}'.encode()
            parts += (b",", begun[version], ending)
    return b"".join((b'{"experiments":[', *parts[1:], pages.ending(page, found.total).encode()))
