"""Compute best value, progress and summary after validations, for one report and for many that share a commit."""

from det_controlplane.core.trials import metrics as core_metrics
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.db.trials.validations import ExperimentSummary
from det_controlplane.services.experiments.live import LiveExperiment

# Smaller steps of the progress are not visible to users.
_VISIBLE = 0.001


class SummaryUpdate:
    """Follows the best value and the progress of an experiment from report to report."""

    def __init__(self, experiment: LiveExperiment) -> None:
        self._experiment = experiment
        self.summary = ExperimentSummary(experiment.row.progress, experiment.row.best_metric)

    def take(self, report: MetricsReport, best_of_trial: float | None) -> tuple[float | None, bool]:
        """Return the searcher's metric of the report, and whether it is the trial's best now."""
        row, summary = self._experiment.row, self.summary
        value = core_metrics.number(report.metrics.get(row.metric))
        if value is None:
            return None, False
        if core_metrics.is_better(value, summary.best_metric, row.smaller_is_better):
            summary.best_metric, summary.best_trial_id = value, report.trial_id
            summary.shown = True
        return value, core_metrics.is_better(value, best_of_trial, row.smaller_is_better)

    def look_at_progress(self) -> None:
        """Update the progress, once the search has heard of the reports."""
        progress = self._experiment.journal.progress(self._experiment.now)
        if progress is not None and abs(progress - (self.summary.progress or 0.0)) >= _VISIBLE:
            self.summary.progress, self.summary.shown = progress, True
