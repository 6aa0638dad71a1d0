"""A validation means the same whether its report shares a transaction with others or has its own."""

from typing import Any

from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.db.engine.database import Database
from det_controlplane.services.context import Context
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

from tests.support.searching import ASHA, context, running

_EXPERIMENT = text(
    "SELECT progress, best_metric, best_trial_id - :first AS best_trial FROM experiments WHERE id = :id"
)
_TRIALS = text("""
    SELECT t.state::text, t.searcher_metric, t.summary_metrics, t.total_batches, best.total_batches AS best_at
    FROM trials t LEFT JOIN metrics best ON best.id = t.best_validation_id WHERE t.experiment_id = :id ORDER BY t.id
""")
_EVENTS = text(
    "SELECT event - 'request_id' AS event FROM search_events WHERE experiment_id = :id ORDER BY seq"
)
_BEST = text("""
    SELECT best.total_batches, t.searcher_metric FROM trials t JOIN metrics best ON best.id = t.best_validation_id
    WHERE t.id = :id
""")
# Trial, batches, loss.
_REPORTS = ((0, 4, 3.0), (1, 4, 2.0), (2, 4, 9.0), (0, 16, 1.0), (1, 16, 2.5))


def _outcome(ctx: Context, batch_metrics: list[Any] | None) -> list[Any]:
    experiment = running(ctx, ASHA.format(trials=3))
    for trial, batches, loss in _REPORTS:
        values = {"loss": loss, "batches": batches}
        report = MetricsReport(
            experiment.trials[trial], 1, "validation", batches, values, batch_metrics
        )
        metric_reports.take(ctx, report)
    with ctx.db.autocommit() as tx:
        body = {"id": experiment.id, "first": experiment.trials[0]}
        return [
            tuple(row)
            for query in (_EXPERIMENT, _TRIALS, _EVENTS)
            for row in tx.execute(query, body)
        ]


def test_single_report_has_the_same_effect_as_in_a_batch(
    database: Database,
) -> None:
    together = _outcome(context(database), None)
    alone = _outcome(context(database), [])
    assert alone == together
    assert together[0][1:] == (1.0, 0)


def test_best_validation_is_found_again_after_a_rollback(database: Database) -> None:
    ctx = context(database)
    (trial, *_) = running(ctx, ASHA.format(trials=2)).trials
    for batches, loss in ((1, 0.5), (2, 0.1)):
        values = {"loss": loss, "batches": batches}
        metric_reports.take(ctx, MetricsReport(trial, 1, "validation", batches, values))
    with database.begin() as tx:
        tx.execute(text("UPDATE trials SET run_id = 2 WHERE id = :id"), {"id": trial})
    metric_reports.take(ctx, MetricsReport(trial, 2, "training", 1, {"loss": 0.7}))
    (best,) = database.read(_BEST, {"id": trial})
    assert tuple(best) == (1, 0.5)
