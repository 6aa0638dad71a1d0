"""Store small reports of several trials in one transaction, if their trials are as the process last saw them.

A trial that only this process stores reports of is never read again: a report that meets another state brings it along.
"""

from collections.abc import Sequence
from functools import partial

from det_controlplane.core.trials import metrics as core_metrics
from det_controlplane.core.trials.metrics import MetricsReport, summary_key
from det_controlplane.db.trials import metrics
from det_controlplane.db.trials.metrics import NewReport, ReportingTrial
from det_controlplane.services.batching import Ticket, together_or_each
from det_controlplane.services.context import Context

# Larger reports take longer than their commit, so others should not wait for them.
SMALL = 100

Report = Ticket[MetricsReport, bool]
_Trials = dict[int, ReportingTrial]


def store(ctx: Context, reports: Sequence[MetricsReport]) -> list[bool]:
    """Store reports. Return False, with nothing changed, for each report that is not a usual one."""
    tickets = [Report(report) for report in reports]
    for ticket in tickets:
        if not _is_small(ticket.item):
            ticket.answer(False)
    read: _Trials = {}
    while pending := [t for t in tickets if not t.answered][: metrics.MOST_TOGETHER]:
        together_or_each(pending, partial(_store_together, ctx, read))
    return [bool(t.result) for t in tickets]


def _is_small(report: MetricsReport) -> bool:
    if report.total_batches is None or report.batch_metrics is not None:
        return False
    return 0 < len(report.metrics) <= SMALL


def _store_together(ctx: Context, read: _Trials, tickets: Sequence[Report]) -> None:
    """Store the first report of each known trial. Later reports of the same trial come in later calls.

    Unknown or changed trials are read for the next call."""
    first = {ticket.item.trial_id: ticket for ticket in reversed(tickets)}
    new, unknown = [], []
    for trial_id, ticket in first.items():
        trial, report = read.get(trial_id) or ctx.memory.reporting.pop(trial_id), ticket.item
        if trial is None:
            unknown.append(trial_id)
        elif report.continues_run(trial.run_id, trial.total_batches):
            new.append(_new(ctx, trial, report))
    with ctx.db.autocommit() as tx:
        trials, others = metrics.add_all(tx, new, unknown)
    for trial in trials.values():
        ctx.memory.reporting.store(trial)
    for trial_id, ticket in first.items():
        if trial_id in trials:
            ticket.answer(True)
        elif trial_id in read or trial_id not in others:
            ticket.answer(False)
        read.pop(trial_id, None)
    read.update(others)


def _new(ctx: Context, trial: ReportingTrial, report: MetricsReport) -> NewReport:
    key = summary_key(report.group)
    return NewReport(
        trial=trial, run_id=report.run_id, metric_group=report.group, steps=report.total_batches or 0,
        metrics=report.metrics, at=report.reported_at or ctx.now(), key=key,
        summary=core_metrics.summarise(trial.summaries.get(key) or {}, [report.metrics]),
    )  # fmt: skip
