"""Decide how a report of metrics changes its trial: the run that it counts for, the row of its step, the summary."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from det_controlplane.core.trials import metrics
from det_controlplane.core.trials.metrics import Conflict, MetricsReport, summary_key


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run of a trial that has been replaced."""

    known: bool  # False: this cluster has not created a run with this number
    ends_at: int | None  # reports beyond this step do not count; None while no later run has begun

    def counts(self, steps: int | None) -> bool:
        return self.ends_at is None or steps is None or steps <= self.ends_at


@dataclass(frozen=True, slots=True)
class StepReport:
    """The stored report of a step."""

    row_id: int
    run_id: int
    metrics: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReportingTrial:
    """The state of a trial that a report is checked against."""

    id: int
    version: str  # changes with every change of the trial
    run_id: int
    total_batches: int
    summaries: dict[str, dict[str, Any]]  # by `summary_key`
    searcher_metric: float | None = None  # of its best validation
    # For one report, read under the trial's lock:
    present: StepReport | None = None  # the report of the same step
    earlier_run: EarlierRun | None = None  # the report's run, if a later run replaced it
    takes_any_run: bool = False  # unmanaged trials count their runs themselves

    def continues_with(self, report: MetricsReport) -> bool:
        """Return whether a report needs no more than this state: the current run reports at or after the last step."""
        if report.total_batches is None or report.run_id != self.run_id:
            return False
        return report.run_id <= 1 or report.total_batches >= self.total_batches

    def after(self, row: "StepRow", version: str) -> "ReportingTrial":
        """Return the state after a report was stored."""
        return replace(
            self, version=version, total_batches=row.total_batches, present=None,
            summaries={**self.summaries, **row.summary},
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepRow:
    """The row that a report adds or extends, and the values of its trial after it."""

    row_id: int | None  # the present report, which gets more metrics; None: a new row
    metrics: dict[str, Any]
    summary: dict[str, dict[str, Any]]  # of the report's group
    total_batches: int


class UnknownRun(Exception):
    """The report names a run that the trial has not begun."""


class ReplacedRun(Exception):
    """The report names a replaced run that this cluster has not created."""


def counts(trial: ReportingTrial, report: MetricsReport) -> bool:
    """Return False for a report of an earlier run if the next run repeats its step. Raises UnknownRun, ReplacedRun.

    Reports may stay on an agent's disk until another run has begun. They count up to the checkpoint that this run
    started from, so that metrics are complete up to every checkpoint from which a run starts."""
    if report.run_id > trial.run_id and not trial.takes_any_run:
        raise UnknownRun(
            f"trial {trial.id} has no run {report.run_id}: its current run is {trial.run_id}"
        )
    if report.run_id >= trial.run_id:
        return True
    if trial.earlier_run is None or not trial.earlier_run.known:
        raise ReplacedRun(
            f"trial {trial.id}: run {report.run_id} was replaced by run {trial.run_id}; its reports are refused"
        )
    return trial.earlier_run.counts(report.total_batches)


def rolls_back(trial: ReportingTrial, report: MetricsReport) -> bool:
    """Return whether a restarted trial repeats steps, so that reports of earlier runs may no longer count."""
    if report.total_batches is None or report.run_id <= 1:
        return False
    return report.total_batches < trial.total_batches or is_replaced(trial.present, report)


def is_replaced(present: StepReport | None, report: MetricsReport) -> bool:
    """Return whether the present report of the step is of an earlier run than a report that rolls the trial back."""
    return present is not None and present.run_id < report.run_id


def row_of(trial: ReportingTrial, report: MetricsReport) -> StepRow | None:
    """Return the row of a report, or None if all its metrics are stored. Raises Conflict.

    The report of an earlier run does not count if this report rolls the trial back."""
    present = trial.present
    if rolls_back(trial, report) and is_replaced(present, report):
        present = None
    stored: Mapping[str, Any] = {}
    if present is not None:
        stored = present.metrics
        added = _find_added_metrics(trial, report, present)
        if not added:
            return None
    else:
        added = report.metrics
    summary = {}
    if added:
        key = summary_key(report.group)
        summary[key] = metrics.summarise(trial.summaries.get(key) or {}, [added])
    return StepRow(
        None if present is None else present.row_id, {**stored, **added}, summary,
        max(trial.total_batches, report.total_batches or 0),
    )  # fmt: skip


def _find_added_metrics(
    trial: ReportingTrial, report: MetricsReport, present: StepReport
) -> dict[str, Any]:
    what = f"trial {trial.id}, {report.group} at step {report.total_batches}"
    try:
        merged = metrics.merged(present.metrics, report.metrics, what)
    except Conflict:
        if report.run_id < trial.run_id:
            return {}  # the next run has reported the step that it started from
        raise
    return {name: value for name, value in merged.items() if name not in present.metrics}


def summaries_of(reports: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the summaries of a trial from the groups and metrics of its reports, oldest first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for group, values in reports:
        groups.setdefault(summary_key(group), []).append(values)
    return {key: metrics.summarise({}, each) for key, each in groups.items()}


def best_of(
    validations: Iterable[tuple[int, Any]], *, smaller_is_better: bool
) -> tuple[int | None, float | None]:
    """Return the best of a trial's validations, oldest first: the id of its row, and its searcher metric."""
    best_id: int | None = None
    best: float | None = None
    for row_id, raw in validations:
        value = metrics.number(raw)
        if value is not None and metrics.is_better(value, best, smaller_is_better):
            best_id, best = row_id, value
    return best_id, best
