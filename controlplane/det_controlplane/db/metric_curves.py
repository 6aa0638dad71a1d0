"""What experiments measured, over their trials: names, steps, values at a step, and how the best one improved."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine import Database
from det_controlplane.db.views import time

_GROUP = "CASE g.key WHEN 'avg_metrics' THEN 'training' WHEN 'validation_metrics' THEN 'validation' ELSE g.key END"
# The summaries of trials have each metric's name once.
_NAMES = text(f"""
    SELECT DISTINCT {_GROUP} AS metric_group, n.name FROM trials t, jsonb_each(t.summary_metrics) g, jsonb_object_keys(g.value) n(name)
    WHERE t.experiment_id = ANY(cast(:ids AS integer[])) ORDER BY 1, 2
""")
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
_HISTORY = text(f"""
    WITH searched AS (SELECT e.id, e.config#>>'{{searcher,metric}}' AS metric,
            CASE WHEN coalesce((e.config#>>'{{searcher,smaller_is_better}}')::boolean, true) THEN 1 ELSE -1 END AS sign
        FROM experiments e WHERE e.id = :id),
    validated AS (SELECT m.id, m.trial_id, m.reported_at, (m.metrics->>s.metric)::float8 AS value, s.sign
        FROM searched s JOIN trials t ON t.experiment_id = s.id JOIN metrics m ON m.trial_id = t.id
        WHERE m.metric_group = 'validation' AND NOT m.archived AND jsonb_typeof(m.metrics->s.metric) = 'number'),
    compared AS (SELECT *, min(sign * value) OVER (ORDER BY reported_at, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS best
        FROM validated)
    SELECT json_build_object('trialId', trial_id, 'endTime', {time("reported_at")}, 'searcherMetric', value)
    FROM compared WHERE best IS NULL OR sign * value < best ORDER BY reported_at, id
""")


def names(db: Database, experiment_ids: Sequence[int]) -> list[tuple[str, str]]:
    """Return the group and name of each metric that trials of the experiments reported."""
    rows = db.read(_NAMES, {"ids": list(experiment_ids)})
    return [(row.metric_group, row.name) for row in rows]


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


def history(db: Database, experiment_id: int) -> list[dict[str, Any]]:
    """Return the validations that were better than all before them, in the API's JSON."""
    return [row[0] for row in db.read(_HISTORY, {"id": experiment_id})]
