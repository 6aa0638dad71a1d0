"""Enforce the limit of metric names before a report is stored. All ways to store reports use this module."""

from dataclasses import dataclass, replace

from det_controlplane.core.trials import metric_names
from det_controlplane.core.trials.metric_names import Admission, MetricNames
from det_controlplane.core.trials.metrics import VALIDATION, MetricsReport
from det_controlplane.db.logs import logs
from det_controlplane.db.trials import metric_names as rows
from det_controlplane.services.context import Context
from det_controlplane.services.errors import require


@dataclass(frozen=True, slots=True)
class AdmittedReport:
    """The report without its refused metrics, and the refusal. `report` is None if all metrics were refused."""

    report: MetricsReport | None
    refusal: str = ""


def admit(ctx: Context, experiment_id: int, report: MetricsReport) -> AdmittedReport:
    """Add the names of a report to its experiment, up to the limits.

    This is committed before the report. Names are never removed, so each process can cache them."""
    names = ctx.memory.metric_names.of(experiment_id)
    if metric_names.are_known(names, report.group, report.metrics):
        return AdmittedReport(report)
    admission = _refused_again(names, report)
    if admission is None:
        admission = _store_names(ctx, experiment_id, report)
        ctx.memory.metric_names.store(experiment_id, admission.names)
    if not admission.refused and admission.has_group(report.group):
        return AdmittedReport(report)
    refusal = metric_names.refusal(experiment_id, report.trial_id, report.group, admission)
    if not admission.has_group(report.group):
        return AdmittedReport(None, refusal)
    refused = set(admission.refused)
    metrics = {name: value for name, value in report.metrics.items() if name not in refused}
    return AdmittedReport(replace(report, metrics=metrics), refusal)


def _refused_again(names: MetricNames, report: MetricsReport) -> Admission | None:
    """Decide without the database if the cached names leave no room for any new name of the report.

    Names are never removed, so the database has no room either. The searcher's metrics are always admitted, and only
    the database knows them."""
    if report.group == VALIDATION or not names:
        return None
    admission = metric_names.admit(names, report.group, report.metrics)
    return admission if admission.names == names else None


def _store_names(ctx: Context, experiment_id: int, report: MetricsReport) -> Admission:
    while True:  # retry if another process changed the names between the read and the write
        with ctx.db.autocommit() as tx:
            row = require(rows.read(tx, experiment_id), f"experiment {experiment_id}")
            admission = metric_names.admit(row.names, report.group, report.metrics, row.searched)
            if admission.names == row.names:
                return admission
            if rows.replace(tx, experiment_id, row.names, admission.names):
                return admission


def note_refusal(ctx: Context, trial_id: int, refusal: str) -> None:
    """Count a report with refused metrics. The trial's log reports the first, the tenth, the hundredth and so on."""
    with ctx.db.begin() as tx:
        refusals = rows.count_refusal(tx, trial_id)
        if not metric_names.is_logged(refusals.reports):
            return
        line = refusal
        if refusals.reports > 1:
            line = f"{refusals.reports:,} reports of this trial had metrics that were not stored. The last: {refusal}"
        logs.add_line(tx, refusals.task_id, line, ctx.now(), "WARNING")
    ctx.waker.wake(f"logs:{refusals.task_id}")
