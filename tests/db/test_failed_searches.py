"""Searches that cannot continue, and the messages for users."""

from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.db.engine.database import Database
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

from tests.support.searching import ASHA, context, running

_EXPERIMENT = text("SELECT state::text AS state, error FROM experiments")


def test_missing_metric_error_contains_the_trial_id(database: Database) -> None:
    ctx = context(database)
    _, second = running(ctx, ASHA.format(trials=2)).trials
    report = MetricsReport(second, 1, "validation", 1024, {"batches": 1024})
    metric_reports.take(ctx, report)
    experiment = database.read(_EXPERIMENT)[0]
    assert experiment.state == "STOPPING_ERROR"
    assert experiment.error.startswith(f"trial {second}: metric 'loss' was not reported")


def test_missing_metric_error_lists_all_reported_metrics(database: Database) -> None:
    ctx = context(database)
    (trial,) = running(ctx, ASHA.format(trials=1)).trials
    metrics = {"batches": 1024, "losses": 0.5, "accuracy": 0.9}
    metric_reports.take(ctx, MetricsReport(trial, 1, "validation", 1024, metrics))
    error = database.read(_EXPERIMENT)[0].error
    assert "reported: accuracy, batches, losses; did you mean 'losses'?" in error
