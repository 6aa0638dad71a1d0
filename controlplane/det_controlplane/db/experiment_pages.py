"""The listing of experiments, and single ones, as JSON text.

A page is one row of the database: what its experiments show is written one after the other, with what many of them
share, their users and projects, beside it.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages, views
from det_controlplane.db.engine import Database
from det_controlplane.db.experiment_texts import ExperimentTexts
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
# What the page keeps of each experiment until its JSON is written.
_CHOSEN = """e.id, e.text_version, e.state, e.unmanaged, e.started_at, e.ended_at, e.job_id, e.user_id, e.project_id,
    e.progress, e.best_trial_id, e.best_metric"""

# Between the pieces of an item, and between items: characters that JSON never has.
_PIECE, _ITEM = b"\x1f", b"\x1e"
_AFTER_PIECE, _AFTER_ITEM = r"E'\x1f'", r"E'\x1e'"

_ITEMS = f"""(SELECT string_agg(concat(e.id, '.', e.text_version, {_AFTER_PIECE}, e.user_id, {_AFTER_PIECE}, e.project_id,
        {_AFTER_PIECE}, {views.EXPERIMENT_CHANGING}, '}}'), {_AFTER_ITEM} ORDER BY e.place) FROM {views.EXPERIMENT_FROM})"""
_USERS = f"""(SELECT string_agg(concat(u.id, {_AFTER_PIECE}, {views.EXPERIMENT_USER}), {_AFTER_ITEM})
    FROM users u WHERE u.id IN (SELECT user_id FROM page))"""
_PROJECTS = f"""(SELECT string_agg(concat(p.id, {_AFTER_PIECE}, {views.EXPERIMENT_PROJECT}), {_AFTER_ITEM})
    FROM projects p JOIN workspaces w ON w.id = p.workspace_id WHERE p.id IN (SELECT project_id FROM page))"""

_EXPERIMENT = text(f"""
    WITH page AS (SELECT {_CHOSEN} FROM experiments e WHERE e.id = :id)
    SELECT concat('{{', d.shown, ',"config":', d.config, {views.EXPERIMENT_USER}, {views.EXPERIMENT_PROJECT},
        {views.EXPERIMENT_CHANGING}, '}}') AS shown,
        d.config, {views.EXPERIMENT_STATE} AS state, j.pool, e.job_id::text AS job_id
    FROM {views.EXPERIMENT_FROM} JOIN experiment_texts d ON d.experiment_id = e.id JOIN users u ON u.id = e.user_id
    JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
""")


@lru_cache(maxsize=512)
def _page(source: str, where: str, order: str, most: int | None) -> Statement:
    return text(f"""{pages.bounds(source, where)},
        page AS MATERIALIZED (SELECT q.*, row_number() OVER () AS place
            FROM (SELECT {_CHOSEN} {pages.span(source, where, order, most)}) q)
        SELECT total, first, {_ITEMS} AS items, {_USERS} AS users, {_PROJECTS} AS projects FROM bounds
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
    statement = _page(source, where, order, page.most)
    found = db.read(statement, {**filters, "offset": page.offset})[0]
    items, users, projects = (
        _split(found.items),
        dict(_split(found.users)),
        dict(_split(found.projects)),
    )
    begun = texts.of(db, [key for key, *_ in items])
    parts: list[bytes] = []
    for key, user_id, project_id, changing in items:
        if key in begun:
            parts += (b",", begun[key], users[user_id], projects[project_id], changing)
    ending = pages.ending(page, found.total, found.first).encode()
    return b"".join((b'{"experiments":[', *parts[1:], ending))


def _split(joined: str | None) -> list[list[bytes]]:
    return [item.split(_PIECE) for item in joined.encode().split(_ITEM)] if joined else []


@dataclass(frozen=True, slots=True)
class ShownExperiment:
    shown: str  # JSON, as `config` is
    config: str
    state: str
    pool: str
    job_id: str


def one(db: Database, experiment_id: int) -> ShownExperiment | None:
    for row in db.read(_EXPERIMENT, {"id": experiment_id}):
        return ShownExperiment(*row)
    return None
