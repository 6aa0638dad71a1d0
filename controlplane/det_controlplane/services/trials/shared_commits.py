"""Store small reports of several trials in one transaction, if their trials are as the process last saw them."""

from collections.abc import Sequence
from functools import partial

from det_controlplane.core import metrics as core_metrics
from det_controlplane.core.metrics import MetricsReport, summary_key
from det_controlplane.db import metrics
from det_controlplane.db.metrics import NewReport, ReportingTrial
from det_controlplane.services.context import Context
from det_controlplane.services.gathering import Ticket, together_or_each

# What a larger one takes is not its commit; others should not wait for it.
SMALL = 100

Report = Ticket[MetricsReport, bool]


def store(ctx: Context, reports: Sequence[MetricsReport]) -> list[bool]:
    """Store reports; False, with nothing changed, for each that asks for more than the usual."""
    tickets = [Report(report) for report in reports]
    for ticket in tickets:
        if not _is_small(ticket.item):
            ticket.answer(False)
    while left := [t for t in tickets if not t.answered][: metrics.MOST_TOGETHER]:
        together_or_each(left, partial(_store_together, ctx))
    return [bool(t.result) for t in tickets]


def _is_small(report: MetricsReport) -> bool:
    if report.total_batches is None or report.batch_metrics is not None:
        return False
    return 0 < len(report.metrics) <= SMALL


def _store_together(ctx: Context, tickets: Sequence[Report]) -> None:
    """Store the first report of each trial; others of it have to come after these."""
    first = {ticket.item.trial_id: ticket for ticket in reversed(tickets)}
    stored: set[int] = set()
    with ctx.db.autocommit() as tx:
        keys = {trial_id: summary_key(ticket.item.group) for trial_id, ticket in first.items()}
        found = metrics.reporting_trials(tx, keys)
        new = [_new(ctx, trial, first[trial_id].item) for trial_id, trial in found.items()
               if first[trial_id].item.goes_on(trial.run_id, trial.total_batches)]  # fmt: skip
        if new:
            stored = metrics.add_all(tx, new)
    for trial_id, ticket in first.items():
        ticket.answer(trial_id in stored)


def _new(ctx: Context, trial: ReportingTrial, report: MetricsReport) -> NewReport:
    key = summary_key(report.group)
    return NewReport(
        trial_id=trial.id, version=trial.version, run_id=report.run_id, metric_group=report.group,
        steps=report.total_batches or 0, metrics=report.metrics, at=report.reported_at or ctx.now(),
        summary={key: core_metrics.summarise(trial.summary or {}, [report.metrics])},
    )  # fmt: skip
