"""A validation report in two statements: one locks and reads what it touches, one writes it all."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db import experiments, trials
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.db.experiments import ExperimentRow
from det_controlplane.db.sql import Statement, text
from det_controlplane.db.trials import TrialRow

# Not EXISTS: the planner may answer that by reading every trial's report of the step.
_LOCK = text(f"""
    SELECT {experiments.COLUMNS}, {trials.COLUMNS}, t.total_batches, t.searcher_metric,
           t.summary_metrics->'validation_metrics' AS summary,
           (SELECT m.id FROM metrics m WHERE m.trial_id = t.id AND m.metric_group = 'validation'
            AND m.total_batches = :steps AND NOT m.archived) IS NOT NULL AS reported
    FROM trials t JOIN experiments e ON e.id = t.experiment_id JOIN jobs j ON j.id = e.job_id
    JOIN searches s ON s.experiment_id = e.id
    WHERE t.id = :trial_id FOR NO KEY UPDATE OF e, s, t
""")
# Every part follows from `added`: a repeated report, or a search that somebody else wrote to, changes nothing at all.
_ADDED = """
    added AS (
        INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
        SELECT :trial_id, :run_id, 'validation', :steps, cast(:metrics AS jsonb), :at
        FROM searches WHERE experiment_id = :id AND seq = :seq
        ON CONFLICT (trial_id, metric_group, total_batches) WHERE NOT archived AND total_batches IS NOT NULL DO NOTHING
        RETURNING id),
    shown AS (
        UPDATE experiments SET progress = :progress,
            best_trial_id = CASE WHEN :best THEN :trial_id ELSE best_trial_id END,
            best_metric = CASE WHEN :best THEN :value ELSE best_metric END
        FROM added WHERE experiments.id = :id AND :shown)
"""
_TRIAL = """
    UPDATE trials SET summary_metrics = summary_metrics || cast(:summary AS jsonb),
        total_batches = greatest(total_batches, :steps), latest_validation_id = added.id,
        best_validation_id = CASE WHEN :best_of_trial THEN added.id ELSE best_validation_id END,
        searcher_metric = CASE WHEN :best_of_trial THEN :value ELSE searcher_metric END
    FROM added WHERE trials.id = :trial_id
"""
_STORE = text(f"WITH {_ADDED} {_TRIAL}")
_STORE_WITH_EVENT = text(f"""
    WITH {_ADDED}, trial AS ({_TRIAL}), event AS (
        INSERT INTO search_events (experiment_id, seq, event) SELECT :id, :seq + 1, cast(:event AS jsonb) FROM added)
    UPDATE searches SET seq = seq + 1 FROM added WHERE experiment_id = :id
""")
_EXPERIMENT = len(fields(ExperimentRow))
_TRIAL_ROW = _EXPERIMENT + len(fields(TrialRow))


@dataclass(slots=True)
class ReportingTrial:
    row: TrialRow
    total_batches: int
    searcher_metric: float | None
    summary: dict[str, Any] | None
    reported: bool  # the step has a report already


@dataclass(frozen=True, slots=True)
class Validation:
    """What a report changes."""

    trial_id: int
    run_id: int
    steps: int
    metrics: dict[str, Any]
    at: datetime
    summary: dict[str, Any]
    value: float | None
    best_of_trial: bool
    best: bool
    progress: float | None
    shown: bool  # the experiment's own row changes


def lock(tx: Tx, trial_id: int, steps: int) -> tuple[ExperimentRow, ReportingTrial] | None:
    """The experiment and its trial, both locked."""
    row = tx.row(_LOCK, {"trial_id": trial_id, "steps": steps})
    if row is None:
        return None
    experiment, trial = ExperimentRow(*row[:_EXPERIMENT]), TrialRow(*row[_EXPERIMENT:_TRIAL_ROW])
    experiment.state, trial.state = ExperimentState(experiment.state), TrialState(trial.state)
    return experiment, ReportingTrial(trial, *row[_TRIAL_ROW:])


def store(tx: Tx, experiment: ExperimentRow, new: Validation, event: dict[str, Any] | None) -> bool:
    """With the search's event, if it is to be kept; False when the step had a report: nothing was written then."""
    return tx.run(*_store(experiment, new, event)) == 1


def store_last(
    tx: Tx, experiment: ExperimentRow, new: Validation, event: dict[str, Any] | None
) -> bool:
    """`store`, and the commit with it."""
    return tx.run_last(*_store(experiment, new, event)) == 1


def _store(
    experiment: ExperimentRow, new: Validation, event: dict[str, Any] | None
) -> tuple[Statement, dict[str, Any]]:
    params = _params(experiment, new)
    if event is None:
        return _STORE, params
    return _STORE_WITH_EVENT, {**params, "event": as_json(event)}


def _params(experiment: ExperimentRow, new: Validation) -> dict[str, Any]:
    return {
        "id": experiment.id, "seq": experiment.seq, "trial_id": new.trial_id, "run_id": new.run_id,
        "steps": new.steps, "metrics": as_json(new.metrics), "at": new.at,
        "summary": as_json({"validation_metrics": new.summary}), "value": new.value,
        "best_of_trial": new.best_of_trial, "best": new.best, "progress": new.progress, "shown": new.shown,
    }  # fmt: skip
