"""Experiments as JSON text: one, and listings of them."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages, views
from det_controlplane.db.engine import Tx
from det_controlplane.db.pages import Listing

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

_ONE = text(f"""
    SELECT {views.EXPERIMENT} AS shown, e.config::text AS config, {views.EXPERIMENT_STATE} AS state, j.pool, e.job_id::text AS job_id
    FROM {views.EXPERIMENT_FROM} WHERE e.id = :id
""")


@dataclass(frozen=True, slots=True)
class ShownExperiment:
    shown: str  # JSON, as `config` is
    config: str
    state: str
    pool: str
    job_id: str


def one(tx: Tx, experiment_id: int) -> ShownExperiment | None:
    found = tx.execute(_ONE, {"id": experiment_id}).first()
    return None if found is None else ShownExperiment(*found)


def find(tx: Tx, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    where = [FILTERS[name] for name in filters]
    order = sort.sql(ORDER, "SORT_BY_ID")
    listing = Listing("experiments", views.EXPERIMENT, views.EXPERIMENT_FROM, where, order)
    return pages.fetch(tx, listing, page, filters)


def ids(tx: Tx, filters: dict[str, Any]) -> list[int]:
    where = " AND ".join(FILTERS[name] for name in filters) or "true"
    found = text(f"SELECT e.id FROM {views.EXPERIMENT_FROM} WHERE {where} ORDER BY e.id")
    return list(tx.execute(found, filters).scalars())
