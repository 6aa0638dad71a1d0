"""Names that tables, charts and filters offer: hyperparameters, metadata and metrics of a project or of experiments.

The answers are bounded. Names come from the smallest documents first, so a task that reports thousands of names cannot
hide the names of other tasks. The statements read at most MOST_READ bytes of documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments.table_columns import STATISTICS
from det_controlplane.db.experiments.table_pages import TableScope

MOST_READ = 64 * 1024 * 1024  # of stored, compressed bytes
MOST_NAMES, MOST_BYTES = 4_000, 512 * 1024
MOST_VALUES, LONGEST_VALUE = 1_000, 1_000
MOST_ROWS = 100_000

_OF_TRIALS = "FROM trials t JOIN experiments e ON e.id = t.experiment_id"
# The project, or all projects of visible workspaces.
_IN_PLACE = """(cast(:project_id AS integer) IS NULL OR {project} = :project_id) AND (
    cast(:within AS integer[]) IS NULL
    OR {project} IN (SELECT id FROM projects WHERE workspace_id = ANY(cast(:within AS integer[]))))"""
_IN_PROJECT = _IN_PLACE.format(project="e.project_id")
_GROUP = "CASE g.key WHEN 'avg_metrics' THEN 'training' WHEN 'validation_metrics' THEN 'validation' ELSE g.key END"
_TYPE = "CASE WHEN count(DISTINCT {type}) > 1 THEN 'string' ELSE min({type}) END AS type"


def _documents(document: str, id: str, source: str) -> str:
    """Return SQL for documents and their rank by size, the smallest first, up to MOST_READ bytes."""
    size = f"pg_column_size({document})"
    return f"""(SELECT document, place FROM (
        SELECT {document} AS document, row_number() OVER w AS place, sum({size}) OVER w AS read {source}
        WINDOW w AS (ORDER BY {size}, {id} DESC)) x WHERE read <= :most_read)"""


def _bound_rows(columns: str, names: str) -> str:
    """Return SQL for the first rows of `names` (with a path and a place), up to MOST_NAMES rows and MOST_BYTES of paths."""
    return f"""SELECT {columns} FROM (
        SELECT *, row_number() OVER w AS number, sum(octet_length(path)) OVER w AS bytes FROM ({names}) x
        WINDOW w AS (ORDER BY place, path)) y
        WHERE number <= :most_names AND bytes <= :most_bytes ORDER BY path"""


# The names of all projects are read up to MOST_ROWS rows.
_OFFERED = text(
    _bound_rows(
        "path, type",
        f"""SELECT path, min(smallest) AS place, {_TYPE.format(type="type")} FROM (
            SELECT path, type, smallest FROM offered_names
            WHERE kind = :kind AND {_IN_PLACE.format(project="project_id")}
            ORDER BY smallest, path LIMIT {MOST_ROWS}) o GROUP BY path""",
    )
)
_METRICS_OF = text(
    _bound_rows(
        "path, type",
        f"""SELECT concat(g.key, '.', n.key) AS path, min(d.place) AS place, {_TYPE.format(type="n.value")}
            FROM {_documents("k.names", "k.experiment_id", "FROM metric_names k WHERE k.experiment_id = ANY(cast(:ids AS integer[]))")} d,
            jsonb_each(d.document) g, jsonb_each_text(g.value) n GROUP BY 1""",
    )
)
_RANGES = text(
    _bound_rows(
        "path, low, high",
        f"""SELECT concat(s.metric_group, '.', s.name, '.', s.statistic) AS path, min(s.value) AS low, max(s.value) AS high,
                min(s.place) AS place
            FROM (SELECT {_GROUP} AS metric_group, n.key AS name, v.key AS statistic, (v.value#>>'{{}}')::float8 AS value, d.place
                FROM {_documents("t.summary_metrics", "t.id", f"{_OF_TRIALS} WHERE {_IN_PROJECT}")} d,
                jsonb_each(d.document) g, jsonb_each(g.value) n, jsonb_each(n.value) v
                WHERE v.key = ANY(cast(:statistics AS text[])) AND jsonb_typeof(v.value) = 'number') s
            GROUP BY 1""",
    )
)
_VALUES = text(f"""
    SELECT DISTINCT value FROM (
        SELECT t.metadata::jsonb#>>cast(:path AS text[]) AS value {_OF_TRIALS}
        WHERE {_IN_PROJECT} AND jsonb_typeof(t.metadata::jsonb#>cast(:path AS text[])) NOT IN ('null', 'object')) x
    WHERE length(value) <= :longest ORDER BY 1 LIMIT :most
""")
_BOUNDS = {"most_read": MOST_READ, "most_names": MOST_NAMES, "most_bytes": MOST_BYTES}


def _params(place: TableScope) -> dict[str, Any]:
    workspaces = None if place.workspaces is None else list(place.workspaces)
    return {"project_id": place.project_id, "within": workspaces}


def hyperparameters(tx: Tx, place: TableScope) -> list[tuple[str, str]]:
    """Return the name and JSON type of hyperparameters."""
    return _read_offered(tx, "hparam", place)


def metadata(tx: Tx, place: TableScope) -> list[tuple[str, str]]:
    """Return the name and JSON type of keys of runs' metadata."""
    return _read_offered(tx, "metadata", place)


def _read_offered(tx: Tx, kind: str, place: TableScope) -> list[tuple[str, str]]:
    rows = tx.execute(_OFFERED, {"kind": kind, **_params(place), **_BOUNDS})
    return [(row.path, row.type) for row in rows]


@dataclass(frozen=True, slots=True)
class MetricName:
    group: str
    name: str
    type: str  # as summaries call it


def metrics(tx: Tx, place: TableScope) -> list[MetricName]:
    """Return the metrics of a project's experiments, including metrics that all trials have rolled back."""
    return _metric_names(_read_offered(tx, "metric", place))


def metrics_of(tx: Tx, experiment_ids: Sequence[int]) -> list[MetricName]:
    """Return metrics of experiments by group and name."""
    rows = tx.execute(_METRICS_OF, {"ids": list(experiment_ids), **_BOUNDS})
    return _metric_names([(row.path, row.type) for row in rows])


def _metric_names(names: Sequence[tuple[str, str]]) -> list[MetricName]:
    metrics = []
    for path, kind in names:
        group, _, name = path.partition(".")
        metrics.append(MetricName(group, name, kind))
    return sorted(metrics, key=lambda metric: (metric.group, metric.name))


@dataclass(frozen=True, slots=True)
class Range:
    column: str
    low: float
    high: float


def ranges(tx: Tx, place: TableScope) -> list[Range]:
    """Return the smallest and largest number in each column of metrics."""
    bounds = {
        **_BOUNDS,
        "most_names": MOST_NAMES * len(STATISTICS),
        "most_bytes": MOST_BYTES * len(STATISTICS),
    }
    params = {**_params(place), "statistics": list(STATISTICS), **bounds}
    return [Range(row.path, row.low, row.high) for row in tx.execute(_RANGES, params)]


def metadata_values(tx: Tx, place: TableScope, path: Sequence[str]) -> list[str]:
    """Return the values of a metadata key in runs: at most MOST_VALUES, each of at most LONGEST_VALUE characters."""
    params = {
        **_params(place),
        "path": list(path),
        "most": MOST_VALUES,
        "longest": LONGEST_VALUE,
    }
    return list(tx.execute(_VALUES, params).scalars())
