"""The listings of experiments, trials and checkpoints, and single ones, as JSON text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages, views
from det_controlplane.db.engine import Database, Tx
from det_controlplane.db.experiment_texts import ExperimentTexts
from det_controlplane.db.pages import Listing
from det_controlplane.db.sql import text

EXPERIMENT_ORDER = {
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
TRIAL_ORDER = {
    "SORT_BY_ID": "t.id", "SORT_BY_START_TIME": "t.started_at", "SORT_BY_END_TIME": "t.ended_at",
    "SORT_BY_STATE": "t.state", "SORT_BY_BEST_VALIDATION_METRIC": "t.searcher_metric",
    "SORT_BY_LATEST_VALIDATION_METRIC": "t.latest_validation_id",
    "SORT_BY_BATCHES_PROCESSED": "t.total_batches",
    "SORT_BY_DURATION": "coalesce(t.ended_at, now()) - t.started_at",
    "SORT_BY_RESTARTS": "t.restarts", "SORT_BY_LOG_RETENTION_DAYS": "t.log_retention_days",
    "SORT_BY_CHECKPOINT_SIZE": "(SELECT sum(c.size) FROM checkpoints c WHERE c.trial_id = t.id)",
}  # fmt: skip
CHECKPOINT_ORDER = {
    "SORT_BY_UUID": "c.uuid", "SORT_BY_TRIAL_ID": "c.trial_id", "SORT_BY_BATCH_NUMBER": "c.steps_completed",
    "SORT_BY_END_TIME": "c.reported_at", "SORT_BY_STATE": "c.state",
    "SORT_BY_SEARCHER_METRIC": f"CASE WHEN {views.CHECKPOINT_METRIC} ~ '^-?[0-9.]'"
        f" THEN {views.CHECKPOINT_METRIC}::double precision END",
}  # fmt: skip

# Each filter with the parameter that feeds it; only those that are given become part of the statement.
EXPERIMENT_FILTERS = {
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
_CHOSEN = """e.id, e.state, e.archived, e.unmanaged, e.started_at, e.ended_at, e.job_id, e.user_id, e.project_id,
    e.context_id, e.progress, e.best_trial_id, e.best_metric"""
_SHOWN = f"e {views.EXPERIMENT_FROM}"
_KNOWN_BY = ("d.experiment_id", "d.version")
_EXPERIMENT = text(f"""
    WITH page AS (SELECT {_CHOSEN} FROM experiments e WHERE e.id = :id)
    SELECT {views.EXPERIMENT} AS shown, d.config, {views.EXPERIMENT_STATE} AS state, j.pool, e.job_id::text AS job_id
    FROM page {_SHOWN}
""")
_TRIAL = text(f"SELECT {views.TRIAL}::text FROM trials t WHERE t.id = :id")
_CHECKPOINT = text(
    f"SELECT {views.CHECKPOINT}::text FROM {views.CHECKPOINT_FROM} WHERE c.uuid = :uuid"
)


def experiments(
    db: Database, texts: ExperimentTexts, page: Page, sort: Sort, filters: dict[str, Any]
) -> str:
    where = [EXPERIMENT_FILTERS[name] for name in filters]
    order = sort.sql(EXPERIMENT_ORDER, "SORT_BY_ID")
    named = " ".join((*where, order))
    joins = [join for alias, join in _JOINED.items() if re.search(rf"\b{alias}\.", named)]
    source = " ".join(("experiments e", *joins))
    listing = Listing(
        "experiments", views.EXPERIMENT_REST, source, where, order, _CHOSEN, _SHOWN, _KNOWN_BY
    )
    found = pages.find(db, listing, page, filters)
    begun = texts.of(db, {row.experiment_id: row.version for row in found.rows})
    items = [
        (begun[row.experiment_id], row.item) for row in found.rows if row.experiment_id in begun
    ]
    return pages.answer(listing, page, found, items)


@dataclass(frozen=True, slots=True)
class ShownExperiment:
    shown: str  # JSON, as `config` is
    config: str
    state: str
    pool: str
    job_id: str


def experiment(db: Database, experiment_id: int) -> ShownExperiment | None:
    for row in db.read(_EXPERIMENT, {"id": experiment_id}):
        return ShownExperiment(*row)
    return None


def trials(tx: Tx, page: Page, sort: Sort, experiment_id: int, states: Sequence[str]) -> str:
    where = ["t.experiment_id = :experiment_id"]
    if states:
        where.append("t.state::text = ANY(cast(:states AS text[]))")
    order = sort.sql(TRIAL_ORDER, "SORT_BY_ID")
    listing = Listing("trials", views.TRIAL, "trials t", where, order)
    return pages.fetch(tx, listing, page, {"experiment_id": experiment_id, "states": list(states)})


def trial(tx: Tx, trial_id: int) -> str | None:
    found: str | None = tx.value(_TRIAL, {"id": trial_id})
    return found


def checkpoints(
    tx: Tx, page: Page, sort: Sort, owner: str, owner_id: int, states: Sequence[str]
) -> str:
    """`owner` is one of our two columns."""
    where = [f"c.{owner} = :owner_id"]
    if states:
        where.append("c.state::text = ANY(cast(:states AS text[]))")
    order = sort.sql(CHECKPOINT_ORDER, "SORT_BY_UUID")
    listing = Listing("checkpoints", views.CHECKPOINT, views.CHECKPOINT_FROM, where, order)
    return pages.fetch(tx, listing, page, {"owner_id": owner_id, "states": list(states)})


def checkpoint(tx: Tx, uuid: object) -> str | None:
    found: str | None = tx.value(_CHECKPOINT, {"uuid": uuid})
    return found
