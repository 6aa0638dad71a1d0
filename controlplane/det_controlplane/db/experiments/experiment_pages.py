"""Experiments as JSON text: one, and listings of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Integer, all_, bindparam, literal_column, select, text

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages, views
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import (
    Collection,
    in_states,
    label_filters,
    one_of,
    owner_filters,
)
from det_controlplane.db.schema import (
    checkpoint_counts,
    experiments,
    jobs,
    projects,
    trial_counts,
    users,
    workspaces,
)

# Under the names that `views` gives them.
_EXPERIMENTS, _JOBS, _USERS = experiments.alias("e"), jobs.alias("j"), users.alias("u")
_PROJECTS, _WORKSPACES = projects.alias("p"), workspaces.alias("w")
_e, _j, _u, _p, _w = _EXPERIMENTS.c, _JOBS.c, _USERS.c, _PROJECTS.c, _WORKSPACES.c
_TRIALS, _CHECKPOINTS = trial_counts.c, checkpoint_counts.c
# The states of the index experiments_live.
_NOT_ENDED = tuple(s.value for s in ExperimentState if s.live or s.stopping)
_LISTED = Collection(
    "experiments",
    # The joined rows always exist. PostgreSQL removes outer joins that a count does not need.
    select(literal_column(views.LISTED_EXPERIMENT)).select_from(
        _EXPERIMENTS.outerjoin(_JOBS, _j.id == _e.job_id)
        .outerjoin(_USERS, _u.id == _e.user_id)
        .outerjoin(_PROJECTS, _p.id == _e.project_id)
        .outerjoin(_WORKSPACES, _w.id == _p.workspace_id)
    ),
    orders={
        "SORT_BY_ID": _e.id, "SORT_BY_DESCRIPTION": _e.description, "SORT_BY_START_TIME": _e.started_at,
        "SORT_BY_END_TIME": _e.ended_at, "SORT_BY_STATE": _e.state, "SORT_BY_PROGRESS": _e.progress,
        "SORT_BY_USER": _u.username, "SORT_BY_NAME": _e.name, "SORT_BY_FORKED_FROM": _e.parent_id,
        "SORT_BY_RESOURCE_POOL": _j.pool, "SORT_BY_PROJECT_ID": _e.project_id,
        "SORT_BY_SEARCHER_METRIC_VAL": _e.best_metric, "SORT_BY_NUM_TRIALS": _TRIALS.trials,
        "SORT_BY_CHECKPOINT_COUNT": _CHECKPOINTS.complete, "SORT_BY_CHECKPOINT_SIZE": _CHECKPOINTS.size,
    },
    filters={
        **owner_filters(_EXPERIMENTS, _USERS),
        **label_filters(_EXPERIMENTS),
        "states": in_states(_e.state),
        "state": _e.state == text("cast(:state AS experiment_state)"),
        "live": _e.state.in_([literal_column(f"'{state}'") for state in _NOT_ENDED]),
        "project_id": _e.project_id == bindparam("project_id"),
        "in_workspaces": one_of(_p.workspace_id, "in_workspaces"),
        "visible": ~_p.archived & ~_w.archived,
        "id_lt": _e.id < bindparam("id_lt"), "id_lte": _e.id <= bindparam("id_lte"),
        "id_gt": _e.id > bindparam("id_gt"), "id_gte": _e.id >= bindparam("id_gte"),
        "id_in": one_of(_e.id, "id_in"),
        "id_not_in": _e.id != all_(bindparam("id_not_in", type_=ARRAY(Integer))),
    },
    searches=frozenset({"name", "description", "labels"}),
    # Inner joins: PostgreSQL reads the rows in the order of an index of these tables.
    joins=[
        (trial_counts, _TRIALS.experiment_id == _e.id),
        (checkpoint_counts, _CHECKPOINTS.experiment_id == _e.id),
    ],
)  # fmt: skip
_ONE = text(f"""
    SELECT {views.EXPERIMENT} AS shown, e.config::text AS config, {views.EXPERIMENT_STATE} AS state, j.pool, e.job_id::text AS job_id,
        e.sealed, e.user_id
    FROM {views.EXPERIMENT_FROM} WHERE e.id = :id
""")


# A changed row has the number of a later transaction, so that no change leaves all of these sums as they were.
_REVISION = text("""
    SELECT e.state, concat_ws('-', e.id, e.xmin, j.xmin,
        (SELECT d.xmin FROM deadlines d WHERE d.experiment_id = e.id),
        (SELECT concat(count(*), '.', sum(t.xmin::text::bigint)) FROM trials t WHERE t.experiment_id = e.id),
        (SELECT concat(count(*), '.', sum(a.xmin::text::bigint)) FROM allocations a WHERE a.job_id = e.job_id),
        (SELECT concat(count(*), '.', sum(c.xmin::text::bigint)) FROM checkpoints c WHERE c.experiment_id = e.id)) AS revision
    FROM experiments e JOIN jobs j ON j.id = e.job_id WHERE e.id = ANY(cast(:ids AS integer[])) ORDER BY e.id
""")


@dataclass(frozen=True, slots=True)
class ShownExperiment:
    shown: str  # JSON, as `config` is
    config: str
    state: str
    pool: str
    job_id: str
    sealed: str | None
    user_id: int


def one(tx: Tx, experiment_id: int) -> ShownExperiment | None:
    row = tx.execute(_ONE, {"id": experiment_id}).first()
    return None if row is None else ShownExperiment(*row)


@dataclass(frozen=True, slots=True)
class Progress:
    """The states of experiments, and a text that changes with them, their trials, runs and checkpoints."""

    states: Sequence[ExperimentState]
    revision: str


def progress(tx: Tx, experiment_ids: Sequence[int]) -> Progress:
    rows = tx.execute(_REVISION, {"ids": list(experiment_ids)}).all()
    states = [ExperimentState(row.state) for row in rows]
    return Progress(states, ",".join(row.revision for row in rows))


def find(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, _with_known_states(filters))


def ids(tx: Tx, filters: dict[str, Any]) -> list[int]:
    query = _LISTED.filtered(filters).with_only_columns(_e.id).order_by(_e.id)
    return list(tx.execute(query, _with_known_states(filters)).scalars())


def _with_known_states(filters: dict[str, Any]) -> dict[str, Any]:
    """Return filters without names that are shown, such as QUEUED, but not stored: they match no row.

    Filters by one state, or by states that have not ended, are in the form of an index that has the experiments in their
    order. PostgreSQL would otherwise look for the first of them in all experiments."""
    if "states" not in filters:
        return filters
    states = {s for s in filters["states"] if s in list(ExperimentState)}
    others = {name: value for name, value in filters.items() if name != "states"}
    if len(states) == 1:
        return {**others, "state": states.pop()}
    if states and states <= set(_NOT_ENDED):
        return {**others, "states": sorted(states), "live": True}
    return {**others, "states": sorted(states)}
