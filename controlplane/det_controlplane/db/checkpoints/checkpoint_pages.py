"""Checkpoints as JSON text: one, and listings of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Text, bindparam, cast, literal_column, select, text

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages, views
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, one_of
from det_controlplane.db.schema import checkpoints, experiments, trials

# Under the names that `views` gives them.
_TRIALS, _CHECKPOINTS, _EXPERIMENTS = (
    trials.alias("t"),
    checkpoints.alias("c"),
    experiments.alias("e"),
)
_c = _CHECKPOINTS.c
_LISTED = Collection(
    "checkpoints",
    select(literal_column(views.CHECKPOINT)).select_from(
        _CHECKPOINTS.outerjoin(_TRIALS, _TRIALS.c.id == _c.trial_id)
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
_BY_METRIC = replace(_LISTED, orders={**_LISTED.orders, Sort.BY_METRIC: _METRIC})
_ONE = text(f"SELECT {views.CHECKPOINT}::text FROM {views.CHECKPOINT_FROM} WHERE c.uuid = :uuid")


def listed(
    db: Database, page: Page, sort: Sort, owner: str, owner_id: int, states: Sequence[str]
) -> Iterator[str]:
    """Return checkpoints of an owner, which is one of our two columns; incomplete ones only if asked for by state."""
    params: dict[str, Any] = {owner: owner_id, "states": list(states or _UPLOADED)}
    collection = _BY_METRIC if sort.metric else _LISTED
    return pages.find(db, collection, page, sort, params, metric=sort.metric)


def one(tx: Tx, uuid: object) -> str | None:
    checkpoint: str | None = tx.execute(_ONE, {"uuid": uuid}).scalar()
    return checkpoint
