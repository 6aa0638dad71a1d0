"""Read the measurements of experiments: names, steps, values at a step, and how the best one improved."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.views import time

_SEARCHED = text("""
    SELECT DISTINCT e.config#>>'{searcher,metric}' FROM experiments e WHERE e.id = ANY(cast(:ids AS integer[])) ORDER BY 1
""")
_MEASURED = """FROM metrics m JOIN trials t ON t.id = m.trial_id
    WHERE t.experiment_id = :id AND m.metric_group = :group AND NOT m.archived AND jsonb_typeof(m.metrics->:name) = 'number'"""
_BATCHES = text(
    f"SELECT DISTINCT m.total_batches {_MEASURED} AND m.total_batches IS NOT NULL ORDER BY 1"
)
_SNAPSHOT = text(f"""
    SELECT json_build_object('trialId', s.id, 'hparams', s.hparams, 'metric', s.value, 'batchesProcessed', s.total_batches)
    FROM (SELECT DISTINCT ON (t.id) t.id, t.hparams, m.total_batches, (m.metrics->>:name)::float8 AS value {_MEASURED}
          AND abs(m.total_batches - :batches) <= :margin ORDER BY t.id, abs(m.total_batches - :batches), m.id) s ORDER BY s.id
""")
_REPORTED = (
    "m.trial_id = {trial} AND NOT m.archived AND m.total_batches IS NOT NULL AND m.metric_group"
)
_STEPS = """m.total_batches >= :first AND (cast(:last AS bigint) = 0 OR m.total_batches <= :last)"""
# Groups are found by jumps through the index, and counting stops where a curve is long.
_LENGTHS = text(f"""
    WITH RECURSIVE found AS (
        SELECT t.id AS trial_id, (SELECT min(m.metric_group) FROM metrics m WHERE {_REPORTED.format(trial="t.id")} >= :group) AS metric_group
        FROM unnest(cast(:ids AS integer[])) AS t (id)
        UNION ALL
        SELECT f.trial_id, (SELECT min(m.metric_group) FROM metrics m WHERE {_REPORTED.format(trial="f.trial_id")} > f.metric_group)
        FROM found f WHERE f.metric_group IS NOT NULL)
    SELECT f.trial_id, f.metric_group, min(s.total_batches) AS first, max(s.total_batches) AS last, max(s.reports) > :few AS long
    FROM found f CROSS JOIN LATERAL (
        (SELECT m.total_batches, 1 AS reports FROM metrics m WHERE {_REPORTED.format(trial="f.trial_id")} = f.metric_group AND {_STEPS}
            ORDER BY m.total_batches LIMIT 1)
        UNION ALL (SELECT m.total_batches, 1 FROM metrics m WHERE {_REPORTED.format(trial="f.trial_id")} = f.metric_group AND {_STEPS}
            ORDER BY m.total_batches DESC LIMIT 1)
        UNION ALL SELECT NULL, count(*) FROM (SELECT FROM metrics m
            WHERE {_REPORTED.format(trial="f.trial_id")} = f.metric_group AND {_STEPS} LIMIT :few + 1) m) s
    WHERE f.metric_group = :group OR (cast(:group AS text) = '' AND f.metric_group IS NOT NULL)
    GROUP BY f.trial_id, f.metric_group HAVING max(s.reports) > 0
""")
_POINT = "m.trial_id, m.metric_group, m.total_batches, m.reported_at, m.metrics"
_ASKED = """m.trial_id = a.trial_id AND m.metric_group = a.metric_group AND NOT m.archived AND m.total_batches IS NOT NULL
    AND CASE WHEN cast(:names AS text[]) = '{}' THEN m.metrics <> '{}' ELSE m.metrics ?| cast(:names AS text[]) END"""
LONGEST_VALUE = 100  # bytes: no curve has texts, lists or objects
# A curve has at most `most` points, evenly spaced by report number. A very long curve has the last report of each of
# `most` equal ranges of steps.
_CURVES = text(f"""
    WITH asked AS (SELECT * FROM jsonb_to_recordset(cast(:asked AS jsonb))
        AS a (trial_id integer, metric_group text, first bigint, last bigint, long boolean)),
    picked AS (
        SELECT {_POINT} FROM (SELECT {_POINT}, row_number() OVER (PARTITION BY m.trial_id, m.metric_group ORDER BY m.total_batches) AS number,
                count(*) OVER (PARTITION BY m.trial_id, m.metric_group) AS reports
            FROM asked a JOIN metrics m ON {_ASKED} AND m.total_batches BETWEEN a.first AND a.last WHERE NOT a.long) m
        WHERE m.number * :most / m.reports <> (m.number - 1) * :most / m.reports
        UNION ALL
        SELECT p.* FROM asked a CROSS JOIN generate_series(1, cast(:most AS bigint)) AS n CROSS JOIN LATERAL (
            SELECT {_POINT} FROM metrics m WHERE {_ASKED} AND m.total_batches >= a.first + (a.last - a.first + 1) * (n - 1) / :most
                AND m.total_batches < a.first + (a.last - a.first + 1) * n / :most ORDER BY m.total_batches DESC LIMIT 1) p WHERE a.long)
    SELECT m.trial_id, m.metric_group, json_agg(json_build_object('batches', m.total_batches, 'time', {time("m.reported_at")},
        'epoch', CASE WHEN jsonb_typeof(m.metrics->'epochs') = 'number' THEN m.metrics->'epochs' END,
        'values', (SELECT jsonb_object_agg(x.key, CASE WHEN octet_length(x.value::text) <= {LONGEST_VALUE} THEN x.value END)
            FROM jsonb_each(m.metrics) x WHERE cast(:names AS text[]) = '{{}}' OR x.key = ANY(cast(:names AS text[])))) ORDER BY m.total_batches) AS points
    FROM picked m GROUP BY m.trial_id, m.metric_group ORDER BY m.trial_id, m.metric_group
""")
VALUE_BYTES = 40  # of a value in JSON, besides its name
_POINT_BYTES = text(f"""
    SELECT max(bytes) FROM (SELECT sum((SELECT sum(octet_length(k.name) + {VALUE_BYTES}) FROM jsonb_object_keys(g.value) k (name))) AS bytes
        FROM metric_names n, jsonb_each(n.names) g WHERE (cast(:group AS text) = '' OR g.key = :group)
        AND n.experiment_id IN (SELECT t.experiment_id FROM trials t WHERE t.id = ANY(cast(:ids AS integer[])))
        GROUP BY n.experiment_id) x
""")
# A curve of more reports is sampled by steps: to number all of them takes as long as to read them.
_FEW = 10_000
_BEST = text("""
    SELECT t.id, t.hparams, t.searcher_metric AS value FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE e.id = :id
    ORDER BY t.searcher_metric * CASE WHEN e.smaller_is_better THEN 1 ELSE -1 END
        NULLS LAST, t.id LIMIT :most
""")
_HISTORY = text(f"""
    WITH searched AS (SELECT e.id, e.metric_name AS metric,
            CASE WHEN e.smaller_is_better THEN 1 ELSE -1 END AS sign
        FROM experiments e WHERE e.id = :id),
    validated AS (SELECT m.id, m.trial_id, m.reported_at, (m.metrics->>s.metric)::float8 AS value, s.sign
        FROM searched s JOIN trials t ON t.experiment_id = s.id JOIN metrics m ON m.trial_id = t.id
        WHERE m.metric_group = 'validation' AND NOT m.archived AND jsonb_typeof(m.metrics->s.metric) = 'number'),
    compared AS (SELECT *, min(sign * value) OVER (ORDER BY reported_at, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS best
        FROM validated)
    SELECT json_build_object('trialId', trial_id, 'endTime', {time("reported_at")}, 'searcherMetric', value)
    FROM compared WHERE best IS NULL OR sign * value < best ORDER BY reported_at, id
""")


def searched(db: Database, experiment_ids: Sequence[int]) -> list[str]:
    return [row[0] for row in db.read(_SEARCHED, {"ids": list(experiment_ids)}) if row[0]]


def batches(db: Database, experiment_id: int, group: str, name: str) -> list[int]:
    """Return the steps at which any trial reported the metric."""
    params = {"id": experiment_id, "group": group, "name": name}
    return [row[0] for row in db.read(_BATCHES, params)]


def snapshot(
    db: Database, experiment_id: int, group: str, name: str, at: int, margin: int
) -> list[dict[str, Any]]:
    """Return each trial's value at the step nearest to `at`, in the API's JSON."""
    params = {"id": experiment_id, "group": group, "name": name, "batches": at, "margin": margin}
    return [row[0] for row in db.read(_SNAPSHOT, params)]


@dataclass(frozen=True, slots=True)
class Window:
    """The part of curves to read: names and group or all of them, steps, and how many points each may have."""

    names: Sequence[str]
    group: str
    first: int
    last: int  # 0 stands for the end
    most: int


@dataclass(frozen=True, slots=True)
class Curve:
    trial_id: int
    group: str
    points: list[dict[str, Any]]  # in the API's JSON


def point_bytes(db: Database, trial_ids: Sequence[int], window: Window) -> int:
    """Return about how many bytes the values of any of the trials may have at one step."""
    if window.names:
        return sum(len(name) + VALUE_BYTES for name in window.names)
    params = {"ids": list(trial_ids), "group": window.group}
    return int(db.read(_POINT_BYTES, params)[0][0] or VALUE_BYTES)


def curves(db: Database, trial_ids: Sequence[int], window: Window) -> list[Curve]:
    """Return the curves of the trials, one for each group of metrics."""
    long = max(_FEW, window.most)
    span = {"group": window.group, "first": window.first, "last": window.last, "few": long}
    length_rows = db.read(_LENGTHS, {"ids": list(trial_ids), **span})
    lengths = json.dumps([dict(row._mapping) for row in length_rows])
    params = {"asked": lengths, "names": list(window.names), "most": window.most}
    rows = db.read(_CURVES, params)
    return [Curve(row.trial_id, row.metric_group, row.points) for row in rows]


@dataclass(frozen=True, slots=True)
class RankedTrial:
    id: int
    hparams: dict[str, Any]
    value: float | None  # the best of the searcher's metric, if it is finite


def best_trials(db: Database, experiment_id: int, most: int) -> list[RankedTrial]:
    """Return the best trials by the searcher's metric."""
    rows = db.read(_BEST, {"id": experiment_id, "most": most})
    return [RankedTrial(row.id, row.hparams, _finite(row.value)) for row in rows]


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if value is not None and math.isfinite(value) else None


def history(db: Database, experiment_id: int) -> list[dict[str, Any]]:
    """Return the validations that were better than all before them, in the API's JSON."""
    return [row[0] for row in db.read(_HISTORY, {"id": experiment_id})]
