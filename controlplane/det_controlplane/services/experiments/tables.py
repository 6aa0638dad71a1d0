"""Tables of experiments and runs: rows that callers filter and sort by any column, and which columns there are."""

from collections.abc import Iterator
from typing import Any

from det_controlplane.core.filters import ColumnType, Filter, Location, SortKey
from det_controlplane.core.paging import Page
from det_controlplane.db.experiments import offered_names, table_pages
from det_controlplane.db.experiments.table_columns import (
    EXPERIMENT_COLUMNS,
    RUN_COLUMNS,
    STATISTICS,
)
from det_controlplane.db.experiments.table_pages import TableScope
from det_controlplane.db.people import projects
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

__all__ = [
    "TableScope",
    "brief_experiments",
    "columns",
    "experiments",
    "metadata_values",
    "ranges",
    "runs",
]

_NAMES = {
    "id": "ID", "localId": "Local ID", "experimentId": "Experiment ID", "experimentName": "Search Name",
    "experimentDescription": "Search Description", "experimentProgress": "Search Progress",
    "isExpMultitrial": "Part of Search", "startTime": "Start Time", "endTime": "End Time", "duration": "Duration",
    "state": "State", "searcherMetricsVal": "Searcher Metric Value", "totalBatchesProcessed": "Batches",
    "restarts": "Restarts", "externalRunId": "External Run ID",
    "checkpointCount": "Checkpoints", "checkpointSize": "Checkpoint Size", "archived": "Archived", "name": "Name",
    "description": "Description", "numTrials": "Trials", "progress": "Progress", "tags": "Tags",
    "forkedFrom": "Forked From", "searcherType": "Searcher", "searcherMetric": "Searcher Metric",
    "resourcePool": "Resource Pool", "user": "User", "externalExperimentId": "External Experiment ID",
    "projectId": "Project ID", "parentArchived": "Parent Archived", "deadline": "Deadline",
}  # fmt: skip
_TYPES = {"number": ColumnType.NUMBER, "array": ColumnType.ARRAY, "date": ColumnType.DATE}
_OF_GROUPS = {"training": Location.TRAINING, "validation": Location.VALIDATIONS}


def runs(
    ctx: Context, place: TableScope, chosen: Filter, sort: tuple[SortKey, ...], page: Page
) -> Iterator[str]:
    return table_pages.runs(ctx.db, place, chosen, sort, page)


def experiments(
    ctx: Context, place: TableScope, chosen: Filter, sort: tuple[SortKey, ...], page: Page
) -> Iterator[str]:
    return table_pages.experiments(ctx.db, place, chosen, sort, page)


def brief_experiments(
    ctx: Context, place: TableScope, chosen: Filter, sort: tuple[SortKey, ...], page: Page
) -> Iterator[str]:
    """Return the fields of experiments that decide which actions are possible."""
    return table_pages.brief_experiments(ctx.db, place, chosen, sort, page)


def columns(ctx: Context, place: TableScope, of_runs: bool) -> list[dict[str, Any]]:
    """Return the fixed columns, then the columns that the visible runs of the place reported."""
    _check(ctx, place)
    where = Location.RUN if of_runs else Location.EXPERIMENT
    fixed = RUN_COLUMNS if of_runs else EXPERIMENT_COLUMNS
    entries = [
        _column(name, where, column.type or ColumnType.TEXT, _NAMES[name])
        for name, column in fixed.items()
    ]
    of_hparams = Location.RUN_HYPERPARAMETERS if of_runs else Location.HYPERPARAMETERS
    with ctx.db.autocommit() as tx:
        hparams = offered_names.hyperparameters(tx, place)
        metrics = offered_names.metrics(tx, place)
        metadata = offered_names.metadata(tx, place) if of_runs else []
    entries += [_column(f"hp.{name}", of_hparams, _type(kind)) for name, kind in hparams]
    for metric in metrics:
        where = _OF_GROUPS.get(metric.group, Location.CUSTOM_METRIC)
        statistics = STATISTICS if metric.type == "number" else ("last",)
        entries += [
            _column(f"{metric.group}.{metric.name}.{statistic}", where, _type(metric.type))
            for statistic in statistics
        ]
    entries += [
        _column(f"metadata.{name}", Location.RUN_METADATA, _type(kind)) for name, kind in metadata
    ]
    return entries


def _column(
    name: str, location: Location, type_: ColumnType, display_name: str = ""
) -> dict[str, Any]:
    return {
        "column": name, "location": f"LOCATION_TYPE_{location.value}", "type": f"COLUMN_TYPE_{type_.value}",
        "displayName": display_name,
    }  # fmt: skip


def _type(kind: str) -> ColumnType:
    return _TYPES.get(kind, ColumnType.TEXT)


def ranges(ctx: Context, place: TableScope) -> list[dict[str, Any]]:
    """Return between which numbers the columns of metrics lie."""
    _check(ctx, place)
    with ctx.db.autocommit() as tx:
        metric_ranges = offered_names.ranges(tx, place)
    return [{"metricsName": r.column, "min": r.low, "max": r.high} for r in metric_ranges]


def metadata_values(ctx: Context, place: TableScope, key: str) -> list[str]:
    """Return the values of a metadata key in the runs of a project. Dots separate the parts of the key."""
    _check(ctx, place)
    with ctx.db.autocommit() as tx:
        return offered_names.metadata_values(tx, place, key.split("."))


def _check(ctx: Context, place: TableScope) -> None:
    if place.project_id is None:
        return
    with ctx.db.autocommit() as tx:
        if projects.one(tx, place.project_id) is None:
            raise Missing(f"project {place.project_id} not found")
