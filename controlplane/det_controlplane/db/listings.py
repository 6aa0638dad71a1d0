"""The listings of trials and checkpoints, and single ones, as JSON text."""

from collections.abc import Sequence

from sqlalchemy import text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages, views
from det_controlplane.db.engine import Tx
from det_controlplane.db.pages import Listing

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
    "SORT_BY_SEARCHER_METRIC": views.CHECKPOINT_METRIC,
}  # fmt: skip
_BY_METRIC = {
    **CHECKPOINT_ORDER, Sort.BY_METRIC: views.checkpoint_metric("cast(:metric AS text)")
}  # fmt: skip

_TRIAL = text(f"SELECT {views.TRIAL}::text FROM trials t WHERE t.id = :id")
_CHECKPOINT = text(
    f"SELECT {views.CHECKPOINT}::text FROM {views.CHECKPOINT_FROM} WHERE c.uuid = :uuid"
)


def trials(tx: Tx, page: Page, sort: Sort, experiment_id: int, states: Sequence[str]) -> str:
    where = ["t.experiment_id = :experiment_id"]
    if states:
        where.append("t.state::text = ANY(cast(:states AS text[]))")
    order = sort.sql(TRIAL_ORDER, "SORT_BY_ID")
    listing = Listing("trials", views.TRIAL, "trials t", where, order)
    return pages.fetch(tx, listing, page, {"experiment_id": experiment_id, "states": list(states)})


def trial(tx: Tx, trial_id: int) -> str | None:
    found: str | None = tx.execute(_TRIAL, {"id": trial_id}).scalar()
    return found


def checkpoints(
    tx: Tx, page: Page, sort: Sort, owner: str, owner_id: int, states: Sequence[str]
) -> str:
    """`owner` is one of our two columns."""
    where = [f"c.{owner} = :owner_id"]
    if states:
        where.append("c.state::text = ANY(cast(:states AS text[]))")
    order = sort.sql(_BY_METRIC if sort.metric else CHECKPOINT_ORDER, "SORT_BY_UUID")
    listing = Listing("checkpoints", views.CHECKPOINT, views.CHECKPOINT_FROM, where, order)
    params = {"owner_id": owner_id, "states": list(states), "metric": sort.metric}
    return pages.fetch(tx, listing, page, params)


def checkpoint(tx: Tx, uuid: object) -> str | None:
    found: str | None = tx.execute(_CHECKPOINT, {"uuid": uuid}).scalar()
    return found
