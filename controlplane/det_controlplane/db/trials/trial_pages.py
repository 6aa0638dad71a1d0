"""Trials as JSON text: one, and listings of them."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Text, bindparam, cast, func, literal_column, select, text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages, views
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, one_of
from det_controlplane.db.schema import trials

_TRIALS = trials.alias("t")  # under the name that `views` gives it
_t = _TRIALS.c
_SIZE = "(SELECT sum(c.size) FROM checkpoints c WHERE c.trial_id = t.id)"
_LISTED = Collection(
    "trials",
    select(literal_column(views.TRIAL)).select_from(_TRIALS),
    orders={
        "SORT_BY_ID": _t.id, "SORT_BY_START_TIME": _t.started_at, "SORT_BY_END_TIME": _t.ended_at,
        "SORT_BY_STATE": _t.state, "SORT_BY_BEST_VALIDATION_METRIC": _t.searcher_metric,
        "SORT_BY_LATEST_VALIDATION_METRIC": _t.latest_validation_id, "SORT_BY_BATCHES_PROCESSED": _t.total_batches,
        "SORT_BY_DURATION": func.coalesce(_t.ended_at, func.now()) - _t.started_at,
        "SORT_BY_RESTARTS": _t.restarts, "SORT_BY_LOG_RETENTION_DAYS": _t.log_retention_days,
        "SORT_BY_CHECKPOINT_SIZE": literal_column(_SIZE),
    },
    filters={
        "experiment_id": _t.experiment_id == bindparam("experiment_id"),
        "states": one_of(cast(_t.state, Text), "states"),
    },
)  # fmt: skip
_ONE = text(f"SELECT {views.TRIAL}::text FROM trials t WHERE t.id = :id")


def listed(
    db: Database, page: Page, sort: Sort, experiment_id: int, states: Sequence[str]
) -> Iterator[str]:
    params: dict[str, Any] = {"experiment_id": experiment_id}
    if states:
        params["states"] = list(states)
    return pages.find(db, _LISTED, page, sort, params)


def one(tx: Tx, trial_id: int) -> str | None:
    trial: str | None = tx.execute(_ONE, {"id": trial_id}).scalar()
    return trial
