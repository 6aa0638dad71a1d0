"""Columns of the tables of experiments and runs, as SQL: fixed ones, and metrics and hyperparameters of a project."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Text, cast, literal_column, text

from det_controlplane.core.filters import WORK_STATES, ColumnType
from det_controlplane.db import views
from det_controlplane.db.conditions import Find, TableColumn, Value
from det_controlplane.db.engine import Tx

TEXT, NUMBER, DATE, LIST = ColumnType.TEXT, ColumnType.NUMBER, ColumnType.DATE, ColumnType.ARRAY
STATISTICS = ("last", "min", "max", "mean")
_SUMMARIES = {"training": "avg_metrics", "validation": "validation_metrics"}


def column(type_: ColumnType, *sql: str) -> TableColumn:
    return TableColumn(tuple(literal_column(part) for part in sql), type_)


def _state(row: str, listed: str) -> TableColumn:
    """Return a column that is filtered by the stored state, and by the one that lists show of ACTIVE."""
    stored: Value = literal_column(f"{row}.state::text")
    return TableColumn((stored, literal_column(listed)), TEXT, known=WORK_STATES[1:])


def _duration(row: str) -> str:
    return f"floor(date_part('epoch', coalesce({row}.ended_at, now()) - {row}.started_at))"


# Of experiments e with their job j, user u, project p and workspace w.
_SHARED = {
    "tags": column(LIST, "e.labels"),
    "forkedFrom": column(NUMBER, "e.parent_id"),
    "searcherType": column(TEXT, "e.searcher_name"),
    "searcherMetric": column(TEXT, "e.metric_name"),
    "resourcePool": column(TEXT, "j.pool"),
    "user": column(TEXT, "u.username", "u.display_name"),
    "externalExperimentId": column(TEXT, "e.external_id"),
    "projectId": column(NUMBER, "e.project_id"),
    "parentArchived": column(TEXT, "(p.archived OR w.archived)::text"),
}
_OF = "(SELECT {what} FROM checkpoints c WHERE c.{key} AND c.state {states})"
_COUNTED, _SIZED = "= 'COMPLETED'", "IN ('COMPLETED', 'PARTIALLY_DELETED')"


def _count(key: str) -> TableColumn:
    return column(NUMBER, _OF.format(what="count(*)", key=key, states=_COUNTED))


def _size(key: str) -> TableColumn:
    return column(NUMBER, _OF.format(what="coalesce(sum(c.size), 0)", key=key, states=_SIZED))


EXPERIMENT_COLUMNS = {
    "id": column(NUMBER, "e.id"),
    "name": column(TEXT, "e.name"),
    "description": column(TEXT, "e.description"),
    "startTime": column(DATE, "e.started_at"),
    "endTime": column(DATE, "e.ended_at"),
    "duration": column(NUMBER, _duration("e")),
    "numTrials": column(NUMBER, "(SELECT count(*) FROM trials t WHERE t.experiment_id = e.id)"),
    "state": _state("e", views.SHOWN_EXPERIMENT_STATE),
    "progress": column(NUMBER, "e.progress"),
    "searcherMetricsVal": column(NUMBER, "e.best_metric"),
    "checkpointCount": _count("experiment_id = e.id"),
    "checkpointSize": _size("experiment_id = e.id"),
    "archived": column(TEXT, "e.archived::text"),
    **_SHARED,
}
# Of trials t as well.
RUN_COLUMNS = {
    "id": column(NUMBER, "t.id"),
    "localId": column(TEXT, "concat(p.key, '-', t.id)"),
    "experimentId": column(NUMBER, "e.id"),
    "experimentName": column(TEXT, "e.name"),
    "experimentDescription": column(TEXT, "e.description"),
    "experimentProgress": column(NUMBER, "e.progress"),
    "isExpMultitrial": column(
        TEXT, "((SELECT count(*) FROM trials x WHERE x.experiment_id = e.id) > 1)::text"
    ),
    "startTime": column(DATE, "t.started_at"),
    "endTime": column(DATE, "t.ended_at"),
    "duration": column(NUMBER, _duration("t")),
    "state": _state("t", views.SHOWN_TRIAL_STATE),
    "searcherMetricsVal": column(NUMBER, "t.searcher_metric"),
    "totalBatchesProcessed": column(NUMBER, "t.total_batches"),
    "restarts": column(NUMBER, "t.restarts"),
    "externalRunId": column(TEXT, "t.external_id"),
    "checkpointCount": _count("trial_id = t.id"),
    "checkpointSize": _size("trial_id = t.id"),
    "archived": column(TEXT, "(t.archived OR e.archived)::text"),
    **_SHARED,
}


def _below(document: str, path: Sequence[str]) -> Value:
    return literal_column(document).op("#>")(cast(list(path), ARRAY(Text)))


def json_columns(prefix: str, document: str) -> Find:
    """Find values of a JSON document by names like `hp.lr`."""

    def find(name: str) -> TableColumn | None:
        if not name.startswith(prefix) or name == prefix:
            return None
        return TableColumn((_below(document, name.removeprefix(prefix).split(".")),), None)

    return find


def metric_columns(summaries: str) -> Find:
    """Find summaries of metrics by names like `validation.loss.min`."""

    def find(name: str) -> TableColumn | None:
        group, _, rest = name.partition(".")
        metric, _, statistic = rest.rpartition(".")
        if not metric or statistic not in STATISTICS:
            return None
        path = (_SUMMARIES.get(group, group), metric, statistic)
        return TableColumn((_below(summaries, path),), None)

    return find


def of_each(find: Find, within: Callable[[Any], Any], order: Find) -> Find:
    """Find a column whose values lie in other rows than the table's own."""

    def found(name: str) -> TableColumn | None:
        inner, first = find(name), order(name)
        if inner is None or first is None:
            return None
        return TableColumn(inner.values, inner.type, within, first.values[0])

    return found


_IN_PROJECT = "(cast(:project_id AS integer) = 0 OR e.project_id = :project_id)"
_GROUP = "CASE g.key WHEN 'avg_metrics' THEN 'training' WHEN 'validation_metrics' THEN 'validation' ELSE g.key END"
_OF_TRIALS = "FROM trials t JOIN experiments e ON e.id = t.experiment_id"
# Objects are what their members are; types that differ between rows are text.
_LEAVES = f"""
    WITH RECURSIVE leaf (path, value) AS (
        SELECT DISTINCT h.key, h.value {_OF_TRIALS}, jsonb_each(nullif({{document}}, 'null'::jsonb)) h(key, value) WHERE {_IN_PROJECT}
        UNION SELECT leaf.path || '.' || h.key, h.value FROM leaf,
            jsonb_each(CASE WHEN jsonb_typeof(leaf.value) = 'object' THEN leaf.value ELSE '{{{{}}}}'::jsonb END) h(key, value))
    SELECT path, CASE WHEN count(DISTINCT jsonb_typeof(value)) > 1 THEN 'string' ELSE min(jsonb_typeof(value)) END AS type
    FROM leaf WHERE jsonb_typeof(value) NOT IN ('object', 'null') GROUP BY path ORDER BY path
"""
_HPARAMS = text(_LEAVES.format(document="t.hparams::jsonb"))
_METADATA = text(_LEAVES.format(document="t.metadata::jsonb"))
_METRICS = text(f"""
    SELECT {_GROUP} AS metric_group, n.key AS name,
        CASE WHEN count(DISTINCT n.value->>'type') > 1 THEN 'string' ELSE min(n.value->>'type') END AS type
    {_OF_TRIALS}, jsonb_each(t.summary_metrics) g, jsonb_each(g.value) n
    WHERE {_IN_PROJECT} GROUP BY 1, 2 ORDER BY 1, 2
""")
_RANGES = text(f"""
    SELECT concat(s.metric_group, '.', s.name, '.', s.statistic) AS name, min(s.value) AS low, max(s.value) AS high
    FROM (SELECT {_GROUP} AS metric_group, n.key AS name, v.key AS statistic, (v.value#>>'{{}}')::float8 AS value
          {_OF_TRIALS}, jsonb_each(t.summary_metrics) g, jsonb_each(g.value) n, jsonb_each(n.value) v
          WHERE {_IN_PROJECT} AND v.key = ANY(cast(:statistics AS text[])) AND jsonb_typeof(v.value) = 'number') s
    GROUP BY 1 ORDER BY 1
""")
_VALUES = text(f"""
    SELECT DISTINCT t.metadata::jsonb#>>cast(:path AS text[]) AS value {_OF_TRIALS}
    WHERE {_IN_PROJECT} AND jsonb_typeof(t.metadata::jsonb#>cast(:path AS text[])) NOT IN ('null', 'object') ORDER BY 1
""")


def hyperparameters(tx: Tx, project_id: int) -> list[tuple[str, str]]:
    """Return the name and JSON type of each hyperparameter; project 0 stands for all."""
    return [(row[0], row[1]) for row in tx.execute(_HPARAMS, {"project_id": project_id})]


def metadata(tx: Tx, project_id: int) -> list[tuple[str, str]]:
    """Return the name and JSON type of each key of runs' metadata."""
    return [(row[0], row[1]) for row in tx.execute(_METADATA, {"project_id": project_id})]


@dataclass(frozen=True, slots=True)
class MetricName:
    group: str
    name: str
    type: str  # as summaries call it


def metrics(tx: Tx, project_id: int) -> list[MetricName]:
    return [MetricName(*row) for row in tx.execute(_METRICS, {"project_id": project_id})]


@dataclass(frozen=True, slots=True)
class Range:
    column: str
    low: float
    high: float


def ranges(tx: Tx, project_id: int) -> list[Range]:
    """Return between which numbers the columns of metrics lie."""
    params = {"project_id": project_id, "statistics": list(STATISTICS)}
    return [Range(*row) for row in tx.execute(_RANGES, params)]


def metadata_values(tx: Tx, project_id: int, path: Sequence[str]) -> list[str]:
    params = {"project_id": project_id, "path": list(path)}
    return list(tx.execute(_VALUES, params).scalars())
