"""The usual small reports of metrics: two round trips and a commit for all that wait, whatever their trials.

Reports that come while others are being committed would wait for that commit anyway, on the disk."""

from collections.abc import Sequence
from functools import partial

from det_controlplane.core import metrics as core_metrics
from det_controlplane.core.metrics import MetricsReport, summary_key
from det_controlplane.db import metrics
from det_controlplane.db.metrics import NewReport, ReportingTrial
from det_controlplane.services.context import Context
from det_controlplane.services.gathering import NotAll, Ticket, together_or_each

# What a larger one takes is not its commit; others should not wait for it.
SMALL = 100
_ALL_TRIALS = 0

Report = Ticket[MetricsReport, bool]


def take(ctx: Context, report: MetricsReport) -> bool:
    """Store a report, with others; False, with nothing changed, when it asks for more than the usual."""
    if report.total_batches is None or report.batch_metrics is not None:
        return False
    if not 0 < len(report.metrics) <= SMALL:
        return False
    store = partial(_store_together, ctx)
    return bool(ctx.reports.take(_ALL_TRIALS, report, partial(together_or_each, store=store)))


def _store_together(ctx: Context, tickets: Sequence[Report]) -> None:
    """Store the first report of each trial; others of it have to come after these."""
    first = {ticket.item.trial_id: ticket for ticket in reversed(tickets)}
    stored: list[Report] = []
    with ctx.db.begin() as tx:
        found = metrics.lock_trials(tx, [_asked(t.item) for t in first.values()])
        new = []
        for trial_id, ticket in first.items():
            trial = found.get(trial_id)
            if trial is not None and _is_usual(trial, ticket.item):
                stored.append(ticket)
                new.append(_new(ctx, trial, ticket.item))
        if new and not metrics.add_all(tx, new):
            raise NotAll
    for ticket in first.values():
        ticket.answer(False)
    for ticket in stored:
        ticket.answer(True)


def _asked(report: MetricsReport) -> tuple[int, str, str, int]:
    return report.trial_id, report.group, summary_key(report.group), report.total_batches or 0


def _is_usual(trial: ReportingTrial, report: MetricsReport) -> bool:
    """Return whether there is nothing to merge and nothing of an earlier run to roll back."""
    return not trial.reported and report.goes_on(trial.run_id, trial.total_batches)


def _new(ctx: Context, trial: ReportingTrial, report: MetricsReport) -> NewReport:
    key = summary_key(report.group)
    return NewReport(
        trial_id=trial.id, run_id=report.run_id, metric_group=report.group, steps=report.total_batches or 0,
        metrics=report.metrics, at=report.reported_at or ctx.now(),
        summary={key: core_metrics.summarise(trial.summary or {}, [report.metrics])},
    )  # fmt: skip
