"""Take reports of metrics: stored once, merged, summarised; validations go to the searcher in the same transaction."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from det_controlplane.core import search
from det_controlplane.core.trials import metrics as core_metrics
from det_controlplane.core.trials.metrics import VALIDATION, MetricsReport, summary_key
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Unstorable
from det_controlplane.db.experiments.experiments import ExperimentRow
from det_controlplane.db.logs import logs
from det_controlplane.db.trials import metrics, trial_reports, trials, unmanaged
from det_controlplane.db.trials import validations as validation_rows
from det_controlplane.db.trials.metrics import TrialMetrics
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.trials import metric_names, shared_commits, validations
from det_controlplane.services.trials.experiment_summary import SummaryUpdate

_SURROGATE = re.compile("[\ud800-\udfff]")


def take(ctx: Context, report: MetricsReport) -> str | None:
    """Store a report and return a message about refused metrics, or None. Repeated reports have no effect."""
    _refuse_unfit(report)
    experiment_id = _experiment_of(ctx, report.trial_id)
    admitted = metric_names.admit(ctx, experiment_id, report)
    if admitted.report is not None:
        _take(ctx, experiment_id, admitted.report)
    if not admitted.refusal:
        return None
    metric_names.note_refusal(ctx, report.trial_id, admitted.refusal)
    return admitted.refusal


def _take(ctx: Context, experiment_id: int, report: MetricsReport) -> None:
    if report.group == VALIDATION:
        if not validations.take(ctx, experiment_id, report):
            with live.locked_experiment(ctx, experiment_id) as experiment:
                _report_validation(experiment, report)
    elif not all(shared_commits.store(ctx, [report])):
        _report_alone(ctx, report)


def take_together(ctx: Context, reports: Sequence[MetricsReport]) -> list[bool]:
    """Store reports that can share transactions. Return False, with nothing changed, for each report that needs
    `take`."""
    usual = [report for report in reports if _is_usual(ctx, report)]
    outcomes = dict(zip(map(id, usual), shared_commits.store(ctx, usual), strict=True))
    return [outcomes.get(id(report), False) for report in reports]


def _is_usual(ctx: Context, report: MetricsReport) -> bool:
    if report.group == VALIDATION:
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


def _report_alone(ctx: Context, report: MetricsReport) -> None:
    with ctx.db.begin() as tx:
        trial = _locked(tx, report)
        if trial is None or _is_repeated(tx, report, ctx.now()):
            return
        _store(tx, trial, report, ctx.now())
        metrics.save_trial(tx, trial)


def _is_repeated(tx: Tx, report: MetricsReport, now: datetime) -> bool:
    """Return whether a report without a step came before; the others are known by their step."""
    if report.total_batches is not None:
        return False
    return not logs.remember_request(tx, report.request_key, str(report.trial_id), now)


def _report_validation(experiment: LiveExperiment, report: MetricsReport) -> None:
    tx, row = experiment.tx, experiment.row
    trial = _locked(tx, report)
    if trial is None or _is_repeated(tx, report, experiment.now):
        return
    rolled_back, row_id = _store(tx, trial, report, experiment.now)
    if row_id is None:
        metrics.save_trial(tx, trial)
        return
    trial.latest_validation_id = row_id
    update = SummaryUpdate(experiment)
    value, best_of_trial = update.take(report, trial.searcher_metric)
    if rolled_back:
        _find_best_again(tx, trial, row)
    elif best_of_trial:
        trial.searcher_metric, trial.best_validation_id = value, row_id
    metrics.save_trial(tx, trial)
    actions: Sequence[search.Action] = ()
    if row.state.live and not row.unmanaged:
        event = experiment.journal.validation(str(trial.request_id), report.metrics)
        if event is not None:
            actions = experiment.journal.record(event)
        update.look_at_progress()
    if update.summary.shown:
        validation_rows.save_summary(tx, row.id, update.summary)
    experiment.carry_out(actions)


def _store(
    tx: Tx, trial: TrialMetrics, report: MetricsReport, now: datetime
) -> tuple[bool, int | None]:
    """Store a report; return whether older reports were rolled back, and the id of the row if it is new."""
    steps = report.total_batches
    archived = 0
    if steps is not None and report.run_id > 1 and steps <= trial.total_batches:
        archived = metrics.archive_older_runs(tx, trial.id, report.run_id, report.group, steps)
    row_id = metrics.add(
        tx, trial_id=trial.id, run_id=report.run_id, group=report.group, total_batches=steps,
        metrics=report.metrics, batch_metrics=report.batch_metrics, at=report.reported_at or now,
    )  # fmt: skip
    added = report.metrics if row_id is not None else _merge(tx, trial, report)
    if archived:
        _summarise_again(tx, trial)
    elif added:
        key = summary_key(report.group)
        group = trial.summary_metrics.get(key) or {}
        trial.summary_metrics[key] = core_metrics.summarise(group, [added])
    if steps is not None:
        trial.total_batches = (
            metrics.max_steps(tx, trial.id) if archived else max(trial.total_batches, steps)
        )
    return bool(archived), row_id


def _merge(tx: Tx, trial: TrialMetrics, report: MetricsReport) -> dict[str, Any]:
    """Add new metrics to the report of the step. Return the added metrics."""
    assert report.total_batches is not None
    row_id, present = metrics.present(tx, trial.id, report.group, report.total_batches)
    what = f"trial {trial.id}, {report.group} at step {report.total_batches}"
    try:
        merged = core_metrics.merged(present, report.metrics, what)
    except core_metrics.Conflict as e:
        if report.run_id < trial.run_id:
            return {}  # the next run has reported the step that it started from
        raise Invalid(str(e)) from e
    added = {k: v for k, v in merged.items() if k not in present}
    if added:
        metrics.merge(tx, row_id, report.run_id, merged)
    return added


def _summarise_again(tx: Tx, trial: TrialMetrics) -> None:
    groups: dict[str, list[dict[str, Any]]] = {}
    for group, values in metrics.all_reports(tx, trial.id):
        groups.setdefault(summary_key(group), []).append(values)
    trial.summary_metrics = {key: core_metrics.summarise({}, r) for key, r in groups.items()}


def _find_best_again(tx: Tx, trial: TrialMetrics, row: ExperimentRow) -> None:
    best: float | None = None
    trial.best_validation_id = None
    for row_id, raw in metrics.validations(tx, trial.id, row.metric):
        value = _parsed(raw)
        if value is not None and core_metrics.is_better(value, best, row.smaller_is_better):
            best, trial.best_validation_id = value, row_id
    trial.searcher_metric = best


def _parsed(raw: str | None) -> float | None:
    try:
        return None if raw is None else float(raw)
    except ValueError:
        return None


def _locked(tx: Tx, report: MetricsReport) -> TrialMetrics | None:
    """Lock and return the trial, or return None if the report is from an earlier run and the next run repeats its step.

    Reports may stay on an agent's disk until another run has begun. They count up to the checkpoint that this run
    started from, so that metrics are complete up to every checkpoint from which a run starts."""
    trial = metrics.lock_trial(tx, report.trial_id)
    if trial is None:
        raise Missing(f"trial {report.trial_id} not found")
    if report.run_id > trial.run_id and not unmanaged.is_unmanaged(tx, trial.id):
        raise Invalid(
            f"trial {trial.id} has no run {report.run_id}: its current run is {trial.run_id}"
        )
    if report.run_id >= trial.run_id:
        return trial
    earlier = trial_reports.earlier_run(tx, trial.id, report.run_id)
    if not earlier.known:
        raise WrongState(
            f"trial {trial.id}: run {report.run_id} was replaced by run {trial.run_id}; its reports are refused"
        )
    return trial if earlier.counts(report.total_batches) else None


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
