"""The usual validation report in two round trips: read under the locks, decide in memory, write everything at once."""

from det_controlplane.core import metrics as core_metrics
from det_controlplane.db import validations
from det_controlplane.db.experiments import ExperimentRow
from det_controlplane.db.validations import ReportingTrial, Validation
from det_controlplane.services import live
from det_controlplane.services.context import Context
from det_controlplane.services.effects import Effects
from det_controlplane.services.live import LiveExperiment
from det_controlplane.services.reports import MetricsReport

# Smaller steps of an experiment's progress nobody sees.
_VISIBLE = 0.001


def take(ctx: Context, experiment_id: int, report: MetricsReport) -> bool:
    """False, with nothing changed, when anything about the report asks for more than the usual."""
    if report.total_batches is None or report.batch_metrics is not None:
        return False
    effects = Effects(ctx)
    with ctx.searches.turn(experiment_id):
        with ctx.db.begin() as tx:
            found = validations.lock(tx, report.trial_id, report.total_batches)
            if found is None or not _is_usual(*found, report):
                return False
            experiment = LiveExperiment(ctx, tx, found[0], effects)
            if not _take(experiment, found[1], report):
                return False
        experiment.journal.keep()
    effects.announce()
    return True


def _is_usual(row: ExperimentRow, trial: ReportingTrial, report: MetricsReport) -> bool:
    """Nothing to merge, nothing of an earlier run to roll back, and a searcher that listens."""
    assert report.total_batches is not None
    if row.unmanaged or not row.state.live or trial.reported or report.run_id < trial.row.run_id:
        return False
    return report.run_id <= 1 or report.total_batches >= trial.total_batches


def _take(experiment: LiveExperiment, trial: ReportingTrial, report: MetricsReport) -> bool:
    journal, tx, row = experiment.journal, experiment.tx, experiment.row
    event = journal.validation(str(trial.row.request_id), report.metrics)
    actions = journal.record(event) if event is not None else ()
    new = _changes(experiment, trial, report)
    written = None if event is None else event.to_json()
    if not actions and not journal.snapshot_due:
        # The search had nothing to say: the commit goes along.
        stored = validations.store_last(tx, row, new, written)
        journal.written()
        return stored
    if not validations.store(tx, row, new, written):
        return False
    journal.written()
    experiment.knows(trial.row)
    experiment.carry_out(actions)
    live.close(experiment)
    return True


def _changes(
    experiment: LiveExperiment, trial: ReportingTrial, report: MetricsReport
) -> Validation:
    assert report.total_batches is not None
    row = experiment.row
    value = core_metrics.number(report.metrics.get(row.metric))
    best = value is not None and core_metrics.is_better(
        value, row.best_metric, row.smaller_is_better
    )
    best_of_trial = value is not None and core_metrics.is_better(
        value, trial.searcher_metric, row.smaller_is_better
    )
    progress = experiment.journal.progress(experiment.now)
    moved = progress is not None and abs(progress - (row.progress or 0.0)) >= _VISIBLE
    return Validation(
        trial_id=trial.row.id, run_id=report.run_id, steps=report.total_batches, metrics=report.metrics,
        at=report.reported_at or experiment.now,
        summary=core_metrics.summarise(trial.summary or {}, [report.metrics]),
        value=value, best_of_trial=best_of_trial, best=best,
        progress=progress if moved else row.progress, shown=best or moved,
    )  # fmt: skip
