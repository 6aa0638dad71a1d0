"""The metric names of experiments, and how many reports of a trial had names that were refused."""

from dataclasses import dataclass

from sqlalchemy import text

from det_controlplane.core.trials.metric_names import MetricNames
from det_controlplane.db.engine.database import Tx, as_json

_READ = text("""
    SELECT n.names, e.metric_name, e.config#>>'{searcher,time_metric}' AS time_metric
    FROM experiments e LEFT JOIN metric_names n ON n.experiment_id = e.id WHERE e.id = :id
""")
_REPLACE = text("""
    INSERT INTO metric_names AS n (experiment_id, names) VALUES (:id, cast(:names AS jsonb))
    ON CONFLICT (experiment_id) DO UPDATE SET names = excluded.names WHERE n.names = cast(:before AS jsonb)
""")
_COUNT = text("""
    WITH counted AS (
        INSERT INTO refused_metrics (trial_id, reports) VALUES (:trial_id, 1)
        ON CONFLICT (trial_id) DO UPDATE SET reports = refused_metrics.reports + 1 RETURNING reports)
    SELECT c.reports, t.task_id FROM counted c, trials t WHERE t.id = :trial_id
""")
_REFUSED_OF = {
    "experiment": text("""
        SELECT coalesce(sum(r.reports), 0) FROM trials t JOIN refused_metrics r ON r.trial_id = t.id
        WHERE t.experiment_id = cast(:id AS integer)
    """),
    "trial": text(
        "SELECT coalesce(sum(reports), 0) FROM refused_metrics WHERE trial_id = cast(:id AS integer)"
    ),
}


@dataclass(frozen=True, slots=True)
class StoredNames:
    """The names of an experiment, and the validation metrics that its searcher reads."""

    names: MetricNames
    searched: frozenset[str]
    searcher_metric: str | None = None


@dataclass(frozen=True, slots=True)
class Refusals:
    reports: int
    task_id: str  # of the trial


def read(tx: Tx, experiment_id: int) -> StoredNames | None:
    """Return the names of an experiment; None if it does not exist."""
    row = tx.execute(_READ, {"id": experiment_id}).first()
    if row is None:
        return None
    names = (name for name in (row.metric_name, row.time_metric) if name)
    return StoredNames(row.names or {}, frozenset(names), row.metric_name)


def replace(tx: Tx, experiment_id: int, before: MetricNames, names: MetricNames) -> bool:
    """Store the names of an experiment; return False if another process changed them since they were read."""
    params = {"id": experiment_id, "before": as_json(before), "names": as_json(names)}
    return tx.execute(_REPLACE, params).rowcount == 1


def count_refusal(tx: Tx, trial_id: int) -> Refusals:
    """Count one more report of a trial that had names which were refused."""
    return Refusals(*tx.execute(_COUNT, {"trial_id": trial_id}).one())


def refused_reports(tx: Tx, kind: str, id: str) -> int:
    """Return how many reports of an experiment or a trial had metrics that were refused; 0 for other kinds."""
    statement = _REFUSED_OF.get(kind)
    return 0 if statement is None else int(tx.execute(statement, {"id": id}).scalar_one())
