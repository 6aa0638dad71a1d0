"""Pages of the tables of experiments and runs, which callers filter and sort by any column."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Boolean,
    Integer,
    Select,
    TextClause,
    asc,
    desc,
    exists,
    literal_column,
    not_,
    select,
    text,
)

from det_controlplane.core.filters import Filter, SortKey
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.core.paging import Page
from det_controlplane.db.engine import pages, views
from det_controlplane.db.engine.conditions import Columns, Where, ordered, where
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.experiments.run_values import Read
from det_controlplane.db.experiments.table_columns import (
    COUNTS_OF_EXPERIMENTS,
    EXPERIMENT_COLUMNS,
    RUN_COLUMNS,
    json_columns,
    kept,
    metric_columns,
    of_each,
)

# Every job, user, project and workspace exists. PostgreSQL leaves unused outer joins out of counts.
_EXPERIMENT_FROM = views.EXPERIMENT_FROM.replace(" JOIN ", " LEFT JOIN ")
_RUNS = text(f"trials t JOIN ({_EXPERIMENT_FROM}) ON e.id = t.experiment_id")
# Clients expect the stored state here. `shownState` also distinguishes queued from running work.
_RUN = f"""json_build_object('id', t.id, 'localId', concat(p.key, '-', t.id), 'state', 'STATE_' || t.state,
    'shownState', {views.TRIAL_STATE}, 'stoppedEarly', {views.STOPPED_EARLY}, 'waitsForSearch', {views.WAITS_FOR_SEARCH},
    'startTime', {views.time("t.started_at")}, 'endTime', {views.time("t.ended_at")},
    'duration', floor(date_part('epoch', coalesce(t.ended_at, now()) - t.started_at))::integer,
    'archived', t.archived, 'parentArchived', e.archived OR p.archived OR w.archived, 'labels', e.labels, 'userId', e.user_id,
    'projectId', p.id, 'projectName', p.name, 'workspaceId', w.id, 'workspaceName', w.name, 'externalRunId', t.external_id,
    'hyperparameters', t.hparams, 'summaryMetrics', t.summary_metrics, 'metadata', t.metadata,
    'searcherMetricValue', t.searcher_metric, 'totalBatchesProcessed', t.total_batches, 'restarts', t.restarts, 'logPolicyMatched', t.log_policy_matched,
    'checkpointCount', (SELECT count(*) FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'COMPLETED'),
    'checkpointSize', (SELECT coalesce(sum(c.size), 0)::bigint::text FROM checkpoints c
                       WHERE c.trial_id = t.id AND c.state IN ('COMPLETED', 'PARTIALLY_DELETED')),
    'experiment', json_build_object('id', e.id, 'name', e.name, 'description', e.description, 'progress', coalesce(e.progress, 0),
        'resourcePool', j.pool, 'searcherMetric', e.metric_name, 'searcherType', coalesce(e.searcher_name, ''),
        'unmanaged', e.unmanaged, 'forkedFrom', e.parent_id, 'externalExperimentId', e.external_id,
        'pachydermIntegration', e.pachyderm,
        'isMultitrial', {views.NUMBER_OF_TRIALS} > 1))"""
_EXPERIMENT = f"""concat('{{"experiment":', {views.LISTED_EXPERIMENT}, ',"bestTrial":',
    coalesce((SELECT {views.TRIAL}::text FROM trials t WHERE t.id = e.best_trial_id), 'null'), '}}')"""
# The fields that decide which actions are possible, enough to select thousands of experiments.
_BRIEF = f"""concat('{{"experiment":', json_build_object('id', e.id, 'name', e.name, 'state', {views.EXPERIMENT_STATE},
    'archived', e.archived, 'unmanaged', e.unmanaged, 'userId', e.user_id, 'projectId', p.id, 'workspaceId', w.id), '}}')"""


_RUN_ROW = text("""
    SELECT t.id, t.experiment_id, t.state::text,
           NOT EXISTS (SELECT 1 FROM trials x WHERE x.experiment_id = t.experiment_id AND x.id <> t.id)
    FROM trials t WHERE t.id = :id
""")


def _of_any_trial(condition: Any) -> Any:
    of_experiment = literal_column("t.experiment_id") == literal_column("e.id")
    return exists(select(text("1")).select_from(text("trials t")).where(of_experiment, condition))


# The best trial of an experiment, or the first one before a best one is known.
_BEST = "coalesce(e.best_trial_id, (SELECT min(x.id) FROM trials x WHERE x.experiment_id = e.id))"


def _of_best_trial(document: str) -> str:
    return f"(SELECT x.{document}::jsonb FROM trials x WHERE x.id = {_BEST})"


_HPARAMS = json_columns("hp.", "t.hparams::jsonb")
_METRICS = metric_columns("t.summary_metrics")
_OF_RUNS = Columns(
    RUN_COLUMNS,
    {
        "hp.NAME": kept(_HPARAMS, "t.id", "trial_id"),
        "metadata.KEY": json_columns("metadata.", "t.metadata::jsonb"),
        "GROUP.METRIC.last": kept(_METRICS, "t.id", "trial_id"),
    },
)
# The hyperparameters of an experiment are those of all its trials. Its metrics are the metrics of the best trial.
_OF_EXPERIMENTS = Columns(
    EXPERIMENT_COLUMNS,
    {
        "hp.NAME": kept(
            of_each(_HPARAMS, _of_any_trial, json_columns("hp.", _of_best_trial("hparams"))),
            "e.id",
            "experiment_id",
        ),
        "GROUP.METRIC.last": kept(
            metric_columns(_of_best_trial("summary_metrics")), _BEST, "trial_id", _METRICS
        ),
    },
)


@dataclass(frozen=True, slots=True)
class TableScope:
    """The project and the workspaces of the listed rows. None stands for all of them."""

    project_id: int | None
    workspaces: Sequence[int] | None


def runs(
    db: Database, place: TableScope, chosen: Filter, sort: tuple[SortKey, ...], page: Page
) -> Iterator[str]:
    rows, every = _runs(_RUN, db.read, place, chosen)
    listing = _list_rows(rows, every, "t.id", _OF_RUNS, sort, "s.trial_id = t.id")
    return pages.search(db, "runs", listing, page, subject=repr((place, chosen)))


def _runs(
    item: str, read: Read, place: TableScope, row_filter: Filter
) -> tuple[Select[Any], Select[Any]]:
    return _chosen(
        item,
        _RUNS,
        place,
        row_filter,
        where(row_filter, _OF_RUNS, read),
        "(t.archived OR e.archived)",
    )


def _list_rows(
    rows: Select[Any],
    every: Select[Any],
    key: str,
    columns: Columns,
    sort: tuple[SortKey, ...],
    join: str,
) -> pages.Listed:
    """Return the rows in their order, and the ones with a number in the first column to sort by as `leading` rows."""
    last = literal_column(key, Integer)
    order = [*ordered(sort, columns), last]
    column = columns.get(sort[0].column) if sort else None
    if column is None or column.kept is None:
        return pages.Listed(rows, last, order, counted_rows=every)
    ranked, has_number = column.kept.ranked()
    number = desc(ranked.c.number) if sort[0].descending else asc(ranked.c.number)
    with_number = rows.select_from(ranked).where(literal_column(join, Boolean), has_number)
    order_of_leading = [number, *ordered(sort[1:], columns), last]
    leading = pages.Listed(with_number, last, order_of_leading, counted_rows=every)
    return pages.Listed(rows, last, order, counted_rows=every, leading=leading)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as actions see it; `is_alone` means that its experiment has no other."""

    id: int
    experiment_id: int
    state: TrialState
    is_alone: bool


def run(tx: Tx, run_id: int) -> RunRow | None:
    row = tx.execute(_RUN_ROW, {"id": run_id}).first()
    return None if row is None else RunRow(row[0], row[1], TrialState(row[2]), row[3])


def run_ids(tx: Tx, place: TableScope, chosen: Filter) -> list[int]:
    _, every = _runs("t.id", lambda statement: tx.execute(statement).all(), place, chosen)
    return list(tx.execute(every.order_by(literal_column("t.id"))).scalars())


def experiments(
    db: Database, place: TableScope, chosen: Filter, sort: tuple[SortKey, ...], page: Page
) -> Iterator[str]:
    return _experiments(_EXPERIMENT, db, place, chosen, sort, page)


def brief_experiments(
    db: Database, place: TableScope, chosen: Filter, sort: tuple[SortKey, ...], page: Page
) -> Iterator[str]:
    """Return the fields of experiments that decide which actions are possible."""
    return _experiments(_BRIEF, db, place, chosen, sort, page)


def _experiments(
    item: str,
    db: Database,
    place: TableScope,
    row_filter: Filter,
    sort: tuple[SortKey, ...],
    page: Page,
) -> Iterator[str]:
    source = _experiments_with(row_filter.columns | {key.column for key in sort})
    filter_sql = where(row_filter, _OF_EXPERIMENTS, db.read)
    rows, every = _chosen(item, source, place, row_filter, filter_sql, "e.archived")
    of_best = f"s.experiment_id = e.id AND s.trial_id = {_BEST}"
    listing = _list_rows(rows, every, "e.id", _OF_EXPERIMENTS, sort, of_best)
    return pages.search(db, "experiments", listing, page, subject=repr((place, row_filter)))


def _experiments_with(names: Collection[str]) -> TextClause:
    """Return the tables of experiments, with the ones that columns of these names need.

    These are inner joins, so that PostgreSQL can read experiments in the order of their indexes."""
    columns = [EXPERIMENT_COLUMNS[name] for name in names if name in EXPERIMENT_COLUMNS]
    aliases = {str(value).partition(".")[0] for column in columns for value in column.values}
    joins = [f" JOIN {table}" for alias, table in COUNTS_OF_EXPERIMENTS.items() if alias in aliases]
    return text(_EXPERIMENT_FROM + "".join(joins))


def _chosen(
    item: str, source: Any, place: TableScope, row_filter: Filter, filter_sql: Where, archived: str
) -> tuple[Select[Any], Select[Any]]:
    """Return the statements for a page of the rows and for every row."""
    conditions = []
    if place.project_id is not None:
        conditions.append(literal_column("e.project_id") == place.project_id)
    if place.workspaces is not None:
        conditions.append(literal_column("p.workspace_id", Integer).in_(place.workspaces))
    if not row_filter.show_archived:
        conditions.append(not_(literal_column(archived)))
    rows: Select[Any] = select(literal_column(item)).select_from(source).where(*conditions)
    return rows.where(filter_sql.page), rows.where(filter_sql.every)
