"""Read the measurements of experiments: names, steps, values at a step, and how the best one improved."""

from collections.abc import Sequence
from dataclasses import dataclass
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
# Of more reports than `most`, as many that lie evenly among all, the last of them too.
_CURVES = text(f"""
    SELECT p.trial_id, p.metric_group, json_agg(json_build_object('batches', p.total_batches, 'time', {time("p.reported_at")},
        'epoch', p.epoch, 'values', p.shown) ORDER BY p.total_batches) AS points
    FROM (SELECT m.trial_id, m.metric_group, m.total_batches, m.reported_at, v.shown,
            CASE WHEN jsonb_typeof(m.metrics->'epochs') = 'number' THEN m.metrics->'epochs' END AS epoch,
            row_number() OVER (PARTITION BY m.trial_id, m.metric_group ORDER BY m.total_batches) AS number,
            count(*) OVER (PARTITION BY m.trial_id, m.metric_group) AS reports
        FROM metrics m CROSS JOIN LATERAL (SELECT jsonb_object_agg(x.key, x.value) AS shown FROM jsonb_each(m.metrics) x
            WHERE cast(:names AS text[]) = '{{}}' OR x.key = ANY(cast(:names AS text[]))) v
        WHERE m.trial_id = ANY(cast(:ids AS integer[])) AND NOT m.archived AND v.shown IS NOT NULL
          AND (cast(:group AS text) = '' OR m.metric_group = :group) AND m.total_batches >= :first
          AND (cast(:last AS bigint) = 0 OR m.total_batches <= :last)) p
    WHERE p.number * :most / p.reports <> (p.number - 1) * :most / p.reports
    GROUP BY p.trial_id, p.metric_group ORDER BY p.trial_id, p.metric_group
""")
_BEST = text("""
    SELECT t.id, t.hparams FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE e.id = :id
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


def curves(db: Database, trial_ids: Sequence[int], window: Window) -> list[Curve]:
    """Return what the trials reported, a curve for each group."""
    params = {
        "ids": list(trial_ids), "names": list(window.names), "group": window.group, "first": window.first,
        "last": window.last, "most": window.most,
    }  # fmt: skip
    rows = db.read(_CURVES, params)
    return [Curve(row.trial_id, row.metric_group, row.points) for row in rows]


def best_trials(db: Database, experiment_id: int, most: int) -> list[tuple[int, dict[str, Any]]]:
    """Return ids and hyperparameters of the best trials by the searcher's metric."""
    rows = db.read(_BEST, {"id": experiment_id, "most": most})
    return [(row.id, row.hparams) for row in rows]


def history(db: Database, experiment_id: int) -> list[dict[str, Any]]:
    """Return the validations that were better than all before them, in the API's JSON."""
    return [row[0] for row in db.read(_HISTORY, {"id": experiment_id})]
