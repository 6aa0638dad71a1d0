"""Metric rows: one a trial, group and step."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine import Tx, as_json

_INSERT = text("""
    INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, batch_metrics, reported_at)
    VALUES (:trial_id, :run_id, :metric_group, :total_batches, cast(:metrics AS jsonb), cast(:batch_metrics AS jsonb), :at)
    ON CONFLICT (trial_id, metric_group, total_batches) WHERE NOT archived AND total_batches IS NOT NULL DO NOTHING
    RETURNING id
""")
_PRESENT = text("""
    SELECT id, metrics FROM metrics
    WHERE trial_id = :trial_id AND metric_group = :metric_group AND total_batches = :total_batches AND NOT archived
    FOR UPDATE
""")
_MERGE = text(
    "UPDATE metrics SET metrics = cast(:metrics AS jsonb), run_id = :run_id WHERE id = :id"
)
_ARCHIVE = text("""
    UPDATE metrics SET archived = true WHERE trial_id = :trial_id AND NOT archived AND run_id < :run_id
      AND ((metric_group = :metric_group AND total_batches >= :total_batches) OR total_batches > :total_batches)
""")
_OF_GROUP = text("""
    SELECT metric_group, metrics FROM metrics WHERE trial_id = :trial_id AND NOT archived AND total_batches IS NOT NULL
    ORDER BY total_batches, id
""")
# Not FOR UPDATE: rows that only refer to the trial may be added meanwhile.
_TRIAL = text("""
    SELECT id, experiment_id, request_id, run_id, state::text AS state, summary_metrics, total_batches, searcher_metric,
           best_validation_id, latest_validation_id
    FROM trials WHERE id = :id FOR NO KEY UPDATE
""")
_SAVE = text("""
    UPDATE trials SET summary_metrics = cast(:summary AS jsonb), total_batches = :total_batches,
        searcher_metric = :searcher_metric, best_validation_id = :best_validation_id,
        latest_validation_id = :latest_validation_id
    WHERE id = :id
""")
_VALIDATIONS = text("""
    SELECT id, total_batches, metrics->>:metric AS metric FROM metrics
    WHERE trial_id = :trial_id AND metric_group = 'validation' AND NOT archived ORDER BY total_batches, id
""")
_MAX_STEPS = text(
    "SELECT coalesce(max(total_batches), 0) FROM metrics WHERE trial_id = :trial_id AND NOT archived"
)


@dataclass(slots=True)
class TrialMetrics:
    """What a report changes on its trial."""

    id: int
    experiment_id: int
    request_id: Any
    run_id: int
    state: str
    summary_metrics: dict[str, Any]
    total_batches: int
    searcher_metric: float | None
    best_validation_id: int | None
    latest_validation_id: int | None


def lock_trial(tx: Tx, trial_id: int) -> TrialMetrics | None:
    row = tx.execute(_TRIAL, {"id": trial_id}).first()
    return None if row is None else TrialMetrics(**row._mapping)


def save_trial(tx: Tx, trial: TrialMetrics) -> None:
    tx.execute(
        _SAVE,
        {
            "id": trial.id, "summary": as_json(trial.summary_metrics),
            "total_batches": trial.total_batches, "searcher_metric": trial.searcher_metric,
            "best_validation_id": trial.best_validation_id,
            "latest_validation_id": trial.latest_validation_id,
        },
    )  # fmt: skip


def insert(
    tx: Tx,
    *,
    trial_id: int,
    run_id: int,
    group: str,
    total_batches: int | None,
    metrics: dict[str, Any],
    batch_metrics: list[Any] | None,
    at: datetime,
) -> int | None:
    """The new row's id; None when the step has a report already."""
    found = tx.execute(
        _INSERT,
        {
            "trial_id": trial_id, "run_id": run_id, "metric_group": group, "at": at,
            "total_batches": total_batches, "metrics": as_json(metrics),
            "batch_metrics": None if batch_metrics is None else as_json(batch_metrics),
        },
    ).scalar()  # fmt: skip
    return None if found is None else int(found)


def present(tx: Tx, trial_id: int, group: str, total_batches: int) -> tuple[int, dict[str, Any]]:
    row = tx.execute(
        _PRESENT, {"trial_id": trial_id, "metric_group": group, "total_batches": total_batches}
    ).first()
    assert row is not None
    return int(row.id), row.metrics


def merge(tx: Tx, row_id: int, run_id: int, metrics: dict[str, Any]) -> None:
    tx.execute(_MERGE, {"id": row_id, "run_id": run_id, "metrics": as_json(metrics)})


def archive_older_runs(tx: Tx, trial_id: int, run_id: int, group: str, total_batches: int) -> int:
    """A restarted trial repeats steps: what an earlier run reported from here on no longer counts."""
    params = {
        "trial_id": trial_id,
        "run_id": run_id,
        "metric_group": group,
        "total_batches": total_batches,
    }
    return tx.execute(_ARCHIVE, params).rowcount


def all_reports(tx: Tx, trial_id: int) -> list[tuple[str, dict[str, Any]]]:
    return [
        (r.metric_group, r.metrics) for r in tx.execute(_OF_GROUP, {"trial_id": trial_id}).all()
    ]


def validations(tx: Tx, trial_id: int, metric: str) -> list[tuple[int, Any]]:
    """Ids and searcher metrics of a trial's validations, oldest first."""
    return [
        (r.id, r.metric)
        for r in tx.execute(_VALIDATIONS, {"trial_id": trial_id, "metric": metric}).all()
    ]


def max_steps(tx: Tx, trial_id: int) -> int:
    return int(tx.execute(_MAX_STEPS, {"trial_id": trial_id}).scalar_one())
