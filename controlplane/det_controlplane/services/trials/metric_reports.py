"""Take reports of metrics: check them, admit their names, and store them in batches."""

import re
from collections.abc import Sequence
from functools import partial

from det_controlplane.core.trials import metrics as core_metrics
from det_controlplane.core.trials.metrics import VALIDATION, MetricsReport
from det_controlplane.db.engine.errors import Unstorable
from det_controlplane.db.trials import trials
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.trials import metric_names, report_batches

# Larger reports take longer than their commit, so others should not wait for them.
_SMALL = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


def take(ctx: Context, report: MetricsReport) -> str | None:
    """Store a report and return a message about refused metrics, or None. Repeated reports have no effect."""
    _refuse_unfit(report)
    experiment_id = _experiment_of(ctx, report.trial_id)
    admitted = metric_names.admit(ctx, experiment_id, report)
    if admitted.report is not None:
        _store(ctx, experiment_id, admitted.report)
    if not admitted.refusal:
        return None
    metric_names.note_refusal(ctx, report.trial_id, admitted.refusal)
    return admitted.refusal


def _store(ctx: Context, experiment_id: int, report: MetricsReport) -> None:
    if report.group == VALIDATION:
        store = partial(report_batches.store_validations, ctx, experiment_id)
        ctx.memory.reports.take(experiment_id, report, store)
        return
    (ticket,) = report_batches.store(ctx, [report], skip_locked=False)
    if ticket.error is not None:
        raise ticket.error


def take_together(ctx: Context, reports: Sequence[MetricsReport]) -> list[bool]:
    """Store reports that can share transactions. Return False, with nothing changed, for each report that needs
    `take`."""
    usual = [report for report in reports if _is_usual(ctx, report)]
    tickets = report_batches.store(ctx, usual, skip_locked=True)
    stored = {id(ticket.item) for ticket in tickets if ticket.result}
    return [id(report) in stored for report in reports]


def _is_usual(ctx: Context, report: MetricsReport) -> bool:
    """Return whether a report is small, valid and not for a searcher, which has a lock of its own."""
    if report.group == VALIDATION or len(report.metrics) > _SMALL or report.batch_metrics:
        return False
    try:
        _refuse_unfit(report)
        experiment_id = _experiment_of(ctx, report.trial_id)
        return not metric_names.admit(ctx, experiment_id, report).refusal
    except (Invalid, Missing, Unstorable):
        return False


def _refuse_unfit(report: MetricsReport) -> None:
    """Refuse a report that cannot be stored, before it shares a transaction with other reports."""
    if "." in report.group or not report.group:
        raise Invalid(f"metric group {report.group!r} must be a name without '.'")
    if _SURROGATE.search(report.group):
        raise Invalid(f"metric group {report.group!r} must not contain half of a surrogate pair")
    if any(len(name) > core_metrics.LONGEST_NAME for name in (report.group, *report.metrics)):
        most = core_metrics.LONGEST_NAME
        raise Invalid(f"names of metrics and their groups have {most} characters at most")
    steps = report.total_batches
    problem = None if steps is None else core_metrics.steps_problem(steps)
    if problem is not None:
        raise Invalid(f"trial {report.trial_id}: {problem}")
    if not 0 <= report.run_id <= core_metrics.MOST_STEPS:
        raise Invalid(f"trial {report.trial_id} has no run {report.run_id}")
    name = core_metrics.beyond_range(report.metrics)
    if name is not None:
        raise Invalid(
            f"metric {name!r} is an integer beyond the range of a float (about 1.8e308): report it as a float or a text"
        )


def _experiment_of(ctx: Context, trial_id: int) -> int:
    cached_id = ctx.memory.experiment_of(trial_id)
    if cached_id is not None:
        return cached_id
    row = trials.experiment_of(ctx.db, trial_id)
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    experiment_id, trial_ids = row
    ctx.memory.remember_trials(trial_ids, experiment_id)
    return experiment_id
