"""The listings of trials and checkpoints, and single ones, as JSON text."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Text, bindparam, cast, func, literal_column, select, text

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages, views
from det_controlplane.db.engine import Database, Tx
from det_controlplane.db.pages import Collection, one_of
from det_controlplane.db.schema import checkpoints, experiments, trials

# Under the names that `views` gives them.
_TRIALS, _CHECKPOINTS = trials.alias("t"), checkpoints.alias("c")
_t, _c, _EXPERIMENTS = _TRIALS.c, _CHECKPOINTS.c, experiments.alias("e")
_SIZE = "(SELECT sum(c.size) FROM checkpoints c WHERE c.trial_id = t.id)"
_LISTED_TRIALS = Collection(
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
_LISTED_CHECKPOINTS = Collection(
    "checkpoints",
    select(literal_column(views.CHECKPOINT)).select_from(
        _CHECKPOINTS.outerjoin(_TRIALS, _t.id == _c.trial_id)
        .outerjoin(_EXPERIMENTS, _EXPERIMENTS.c.id == _c.experiment_id)
    ),
    orders={
        "SORT_BY_UUID": _c.uuid, "SORT_BY_TRIAL_ID": _c.trial_id, "SORT_BY_BATCH_NUMBER": _c.steps_completed,
        "SORT_BY_END_TIME": _c.reported_at, "SORT_BY_STATE": _c.state,
        "SORT_BY_SEARCHER_METRIC": literal_column(views.CHECKPOINT_METRIC),
    },
    filters={
        "experiment_id": _c.experiment_id == bindparam("experiment_id"),
        "trial_id": _c.trial_id == bindparam("trial_id"),
        "states": one_of(cast(_c.state, Text), "states"),
    },
)  # fmt: skip
_UPLOADED = [state.value for state in CheckpointState if state is not CheckpointState.ACTIVE]
_METRIC = text(views.checkpoint_metric("cast(:metric AS text)"))
_BY_METRIC = replace(
    _LISTED_CHECKPOINTS, orders={**_LISTED_CHECKPOINTS.orders, Sort.BY_METRIC: _METRIC}
)

_TRIAL = text(f"SELECT {views.TRIAL}::text FROM trials t WHERE t.id = :id")
_CHECKPOINT = text(
    f"SELECT {views.CHECKPOINT}::text FROM {views.CHECKPOINT_FROM} WHERE c.uuid = :uuid"
)


def trials_of(
    db: Database, page: Page, sort: Sort, experiment_id: int, states: Sequence[str]
) -> Iterator[str]:
    given = _given("experiment_id", experiment_id, states)
    return pages.find(db, _LISTED_TRIALS, page, sort, given)


def trial(tx: Tx, trial_id: int) -> str | None:
    found: str | None = tx.execute(_TRIAL, {"id": trial_id}).scalar()
    return found


def checkpoints_of(
    db: Database, page: Page, sort: Sort, owner: str, owner_id: int, states: Sequence[str]
) -> Iterator[str]:
    """Return checkpoints of an owner, which is one of our two columns; incomplete ones only if asked for by state."""
    listed = _BY_METRIC if sort.metric else _LISTED_CHECKPOINTS
    given = _given(owner, owner_id, states or _UPLOADED)
    return pages.find(db, listed, page, sort, given, metric=sort.metric)


def _given(owner: str, owner_id: int, states: Sequence[str]) -> dict[str, Any]:
    return {owner: owner_id} | ({"states": list(states)} if states else {})


def checkpoint(tx: Tx, uuid: object) -> str | None:
    found: str | None = tx.execute(_CHECKPOINT, {"uuid": uuid}).scalar()
    return found
