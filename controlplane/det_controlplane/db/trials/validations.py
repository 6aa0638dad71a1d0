"""Validation reports of one experiment in two statements: the first locks and reads, the second writes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import text, update

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.experiments import experiments
from det_controlplane.db.experiments.experiments import ExperimentRow
from det_controlplane.db.trials import trials
from det_controlplane.db.trials.trials import TrialRow

# Not EXISTS: the planner may answer that by reading every trial's report of the step.
_LOCK = text(f"""
    SELECT {experiments.COLUMNS}, {trials.COLUMNS}, t.total_batches, t.searcher_metric,
           t.summary_metrics->'validation_metrics' AS summary,
           (SELECT m.id FROM metrics m WHERE m.trial_id = t.id AND m.metric_group = 'validation'
            AND m.total_batches = w.steps AND NOT m.archived) IS NOT NULL AS reported
    FROM unnest(cast(:trial_ids AS integer[]), cast(:steps AS integer[])) AS w (trial_id, steps)
    JOIN trials t ON t.id = w.trial_id JOIN experiments e ON e.id = t.experiment_id JOIN jobs j ON j.id = e.job_id
    JOIN searches s ON s.experiment_id = e.id
    WHERE e.id = :id FOR NO KEY UPDATE OF e, s, t
""")
# Every part depends on `added`. A repeated report, or a search that another process changed, adds no row. The events
# are appended as `searches.append` does, under the same guard of `seq`.
_STORE = text("""
    WITH new AS (
        SELECT * FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (trial_id integer, run_id integer, steps integer,
            metrics jsonb, at timestamptz, summary jsonb, value double precision, best_of_trial boolean, seq integer, event jsonb)),
    added AS (
        INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
        SELECT n.trial_id, n.run_id, 'validation', n.steps, n.metrics, n.at
        FROM new n, searches s WHERE s.experiment_id = :id AND s.seq = :seq
        ON CONFLICT (trial_id, metric_group, total_batches) WHERE NOT archived AND total_batches IS NOT NULL DO NOTHING
        RETURNING id, trial_id),
    trial AS (
        UPDATE trials t SET summary_metrics = t.summary_metrics || n.summary,
            total_batches = greatest(t.total_batches, n.steps), latest_validation_id = a.id,
            best_validation_id = CASE WHEN n.best_of_trial THEN a.id ELSE t.best_validation_id END,
            searcher_metric = CASE WHEN n.best_of_trial THEN n.value ELSE t.searcher_metric END
        FROM added a JOIN new n ON n.trial_id = a.trial_id WHERE t.id = a.trial_id),
    shown AS (
        UPDATE experiments SET progress = :progress, best_trial_id = coalesce(:best_trial_id, best_trial_id),
            best_metric = :best_metric
        WHERE id = :id AND :shown AND EXISTS (SELECT 1 FROM added)),
    event AS (
        INSERT INTO search_events (experiment_id, seq, event)
        SELECT :id, n.seq, n.event FROM new n JOIN added a ON a.trial_id = n.trial_id WHERE n.event IS NOT NULL)
    UPDATE searches SET seq = seq + :events
    WHERE experiment_id = :id AND seq = :seq AND (SELECT count(*) FROM added) = :count
""")
_EXPERIMENT = len(fields(ExperimentRow))
_TRIAL_ROW = _EXPERIMENT + len(fields(TrialRow))


@dataclass(slots=True)
class ValidatingTrial:
    row: TrialRow
    total_batches: int
    searcher_metric: float | None
    summary: dict[str, Any] | None
    reported: bool  # the step has a report already


@dataclass(frozen=True, slots=True)
class Validation:
    """Hold the changes of one report to its trial, and the event for the search, if it listens."""

    trial_id: int
    run_id: int
    steps: int
    metrics: dict[str, Any]
    at: datetime
    summary: dict[str, Any]
    value: float | None
    best_of_trial: bool
    event: dict[str, Any] | None


@dataclass(slots=True)
class ExperimentSummary:
    """The changes of reports to the experiment's own row."""

    progress: float | None
    best_metric: float | None
    best_trial_id: int | None = None  # None: as before
    shown: bool = False  # anything of it changes


def lock(
    tx: Tx, experiment_id: int, steps: dict[int, int]
) -> tuple[ExperimentRow, dict[int, ValidatingTrial]] | None:
    """Lock the experiment and its reporting trials. Return them with the reported steps."""
    params = {"id": experiment_id, "trial_ids": list(steps), "steps": list(steps.values())}
    rows = tx.execute(_LOCK, params).all()
    if not rows:
        return None
    experiment = ExperimentRow(*rows[0][:_EXPERIMENT])
    experiment.state = ExperimentState(experiment.state)
    return experiment, {t.row.id: t for t in map(_trial, rows)}


def _trial(row: Any) -> ValidatingTrial:
    trial = TrialRow(*row[_EXPERIMENT:_TRIAL_ROW])
    trial.state = TrialState(trial.state)
    return ValidatingTrial(trial, *row[_TRIAL_ROW:])


def store(
    tx: Tx, experiment: ExperimentRow, new: Sequence[Validation], summary: ExperimentSummary
) -> bool:
    """Store validations with the events of the search. Return False if some could not be written; then the
    transaction must be rolled back."""
    return tx.execute(_STORE, _params(experiment, new, summary)).rowcount == 1


def save_summary(tx: Tx, experiment_id: int, summary: ExperimentSummary) -> None:
    values: dict[str, float | None] = {
        "progress": summary.progress,
        "best_metric": summary.best_metric,
    }
    if summary.best_trial_id is not None:
        values["best_trial_id"] = summary.best_trial_id
    experiments = schema.experiments
    tx.execute(update(experiments).where(experiments.c.id == experiment_id).values(values))


def _params(
    experiment: ExperimentRow, new: Sequence[Validation], summary: ExperimentSummary
) -> dict[str, Any]:
    rows, seq = [], experiment.seq
    for one in new:
        seq += one.event is not None
        rows.append(
            {
                "trial_id": one.trial_id, "run_id": one.run_id, "steps": one.steps, "metrics": one.metrics,
                "at": one.at.isoformat(), "summary": {"validation_metrics": one.summary},
                # As text, because JSON has no NaN and no infinity.
                "value": None if one.value is None else str(one.value),
                "best_of_trial": one.best_of_trial, "seq": seq, "event": one.event,
            }
        )  # fmt: skip
    return {
        "id": experiment.id, "seq": experiment.seq, "rows": as_json(rows), "count": len(rows),
        "events": seq - experiment.seq, "progress": summary.progress, "best_metric": summary.best_metric,
        "best_trial_id": summary.best_trial_id, "shown": summary.shown,
    }  # fmt: skip
