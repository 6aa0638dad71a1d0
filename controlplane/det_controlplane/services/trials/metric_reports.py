"""Check reports of metrics, admit their names, and store batches of them. A single report is a batch of one.

A batch is one transaction:

1. Lock and read the trials, in the order of their ids; for validations also the experiment with its search.
2. Check the run of each report. Reports of earlier runs count up to the start of the next run.
3. Roll back the reports of earlier runs whose steps the trial repeats.
4. Compute the row of each step, the summary, the best value and the event for the search.
5. Write rows, trials, experiment and events by one statement.
6. Carry out the decisions of the search, commit, and wake.

If this process stored the last report of a trial, it remembers the trial and skips the first step. The statement skips
trials that have changed since.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from det_controlplane.core import search
from det_controlplane.core.trials import metrics as core_metrics
from det_controlplane.core.trials import reports as rules
from det_controlplane.core.trials.metrics import VALIDATION, Conflict, MetricsReport
from det_controlplane.core.trials.reports import ReplacedRun, ReportingTrial, UnknownRun
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Unstorable
from det_controlplane.db.logs import logs
from det_controlplane.db.trials import metrics, trials
from det_controlplane.db.trials.metrics import ExperimentSummary, NewReport
from det_controlplane.db.trials.trials import TrialRow
from det_controlplane.services.batching import BatchRejected, Ticket, together_or_each
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.trials import metric_names
from det_controlplane.services.use_case import change

Report = Ticket[MetricsReport, bool]
_ENDS_THE_SEARCH = (search.Shutdown, search.Fail)
# Smaller steps of the progress are not visible to users.
_VISIBLE = 0.001
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
        store = partial(_store_validations, ctx, experiment_id)
        ctx.memory.reports.take(experiment_id, report, store)
        return
    (ticket,) = _store_reports(ctx, [report], skip_locked=False)
    if ticket.error is not None:
        raise ticket.error


def take_together(ctx: Context, reports: Sequence[MetricsReport]) -> list[bool]:
    """Store reports that can share transactions. Return False, with nothing changed, for each report that needs
    `take`."""
    usual = [report for report in reports if _is_usual(ctx, report)]
    tickets = _store_reports(ctx, usual, skip_locked=True)
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


def _store_reports(
    ctx: Context, reports: Sequence[MetricsReport], *, skip_locked: bool
) -> list[Report]:
    """Store reports other than validations. Return a ticket for each, with the refusal of an invalid report.

    With `skip_locked`, the result of a report is False if its trial is locked or missing."""
    tickets = [Report(report) for report in reports]
    while pending := [t for t in tickets if not t.answered]:
        first = _first_of_each_trial(pending)[: metrics.MOST_TOGETHER]
        together_or_each(first, partial(_store_remembered, ctx))
        unknown = [t for t in first if not t.answered]
        if unknown:
            together_or_each(unknown, partial(_store_locked, ctx, skip_locked=skip_locked))
    return tickets


def _store_validations(ctx: Context, experiment_id: int, tickets: Sequence[Report]) -> None:
    """Store the first validation of each trial of an experiment. Later ones of the same trial come in later calls."""
    first = _first_of_each_trial(tickets)
    together_or_each(first, partial(_store_for_search, ctx, experiment_id))


def _first_of_each_trial(tickets: Sequence[Report]) -> list[Report]:
    first: dict[int, Report] = {}
    for ticket in tickets:
        first.setdefault(ticket.item.trial_id, ticket)
    return list(first.values())


def _store_remembered(ctx: Context, tickets: Sequence[Report]) -> None:
    """Store reports of remembered trials. Leave the others unanswered."""
    remembered = {}
    for ticket in tickets:
        trial = ctx.memory.reporting.pop(ticket.item.trial_id)
        if trial is not None and trial.continues_with(ticket.item):
            remembered[trial.id] = trial
    if not remembered:
        return
    with ctx.db.autocommit() as tx:
        batch = _check_reports(
            tx, ctx.now(), remembered, [t for t in tickets if t.item.trial_id in remembered]
        )
        stored = metrics.store(tx, batch.new)
    _answer(ctx, batch, stored)


def _store_locked(ctx: Context, tickets: Sequence[Report], *, skip_locked: bool) -> None:
    with ctx.db.begin() as tx:
        locked = metrics.lock(tx, [t.item for t in tickets], skip_locked=skip_locked)
        batch = _check_reports(
            tx, ctx.now(), locked, [t for t in tickets if t.item.trial_id in locked]
        )
        stored = metrics.store(tx, batch.new) if batch.new else {}
    _answer(ctx, batch, stored)
    for ticket in tickets:
        if ticket.item.trial_id in locked:
            continue
        if skip_locked:
            ticket.answer(False)
        else:
            ticket.fail(Missing(f"trial {ticket.item.trial_id} not found"))


def _store_for_search(ctx: Context, experiment_id: int, tickets: Sequence[Report]) -> None:
    with change(ctx) as changed:
        reports = [t.item for t in tickets]
        locked = metrics.lock_with_experiment(changed.tx, experiment_id, reports)
        if locked is None:
            raise Missing(f"experiment {experiment_id} not found")
        experiment = LiveExperiment(ctx, changed, locked.row)
        decisions = _Decisions(experiment, locked.rows)
        batch = _check_reports(changed.tx, changed.now, locked.trials, tickets, decisions)
        if batch.new:
            decisions.write(batch.new)
            for one in batch.new:
                experiment.remember(locked.rows[one.trial.id])
            decisions.carry_out()
    for ticket in batch.tickets:
        ticket.answer(True)


@dataclass(slots=True)
class _Checked:
    """The accepted reports of a batch. Repeated reports have no new row."""

    tickets: list[Report] = field(default_factory=list)
    new: list[NewReport] = field(default_factory=list)


def _check_reports(
    tx: Tx,
    now: datetime,
    trials: Mapping[int, ReportingTrial],
    tickets: Sequence[Report],
    decisions: "_Decisions | None" = None,
) -> _Checked:
    """Check reports in their order, and compute their rows. Invalid reports are answered with their refusals.

    Reports after the end of the search are left for another batch."""
    batch = _Checked()
    for ticket in tickets:
        try:
            new = _new(tx, now, trials[ticket.item.trial_id], ticket.item)
        except (Conflict, UnknownRun) as e:
            ticket.fail(Invalid(str(e)))
            continue
        except ReplacedRun as e:
            ticket.fail(WrongState(str(e)))
            continue
        batch.tickets.append(ticket)
        if new is not None:
            batch.new.append(new if decisions is None else decisions.fold(new))
        if decisions is not None and decisions.end_the_search:
            break
    return batch


def _new(tx: Tx, now: datetime, trial: ReportingTrial, report: MetricsReport) -> NewReport | None:
    """Return the rows of a report, or None if it changes nothing."""
    if not rules.counts(trial, report) or _is_repeated(tx, report, now):
        return None
    row = rules.row_of(trial, report)
    if rules.rolls_back(trial, report) and metrics.archive_older_runs(tx, report):
        trial = _reset(tx, trial, report)
        row = rules.row_of(trial, report)
    return None if row is None else NewReport(trial, report, row, report.reported_at or now)


def _is_repeated(tx: Tx, report: MetricsReport, now: datetime) -> bool:
    """Return whether a report without a step came before; the others are known by their step."""
    if report.total_batches is not None:
        return False
    return not logs.remember_request(tx, report.request_key, str(report.trial_id), now)


def _reset(tx: Tx, trial: ReportingTrial, report: MetricsReport) -> ReportingTrial:
    """Compute the values of a trial again from the reports that still count."""
    remaining = metrics.remaining(tx, trial.id)
    summaries = rules.summaries_of((r.group, r.metrics) for r in remaining if r.steps is not None)
    total_batches = max((r.steps or 0 for r in remaining), default=0)
    best_id, best = rules.best_of(
        ((r.id, r.metrics.get(r.searcher_metric)) for r in remaining if r.group == VALIDATION),
        smaller_is_better=bool(remaining) and remaining[0].smaller_is_better,
    )
    version = metrics.reset(
        tx, trial.id, summaries=summaries, total_batches=total_batches, best_id=best_id, searcher_metric=best
    )  # fmt: skip
    return replace(
        trial, version=version, total_batches=total_batches, summaries=summaries, searcher_metric=best,
        present=None if rules.is_replaced(trial.present, report) else trial.present,
    )  # fmt: skip


def _answer(ctx: Context, batch: _Checked, stored: Mapping[int, ReportingTrial]) -> None:
    """Answer stored and repeated reports, and remember the trials. Other reports are left for another try."""
    for trial in stored.values():
        ctx.memory.reporting.store(trial)
    unstored = {one.trial.id for one in batch.new} - stored.keys()
    for ticket in batch.tickets:
        if ticket.item.trial_id not in unstored:
            ticket.answer(True)


class _Decisions:
    """Folds validations into the search in their order, and collects its decisions and the experiment's summary."""

    def __init__(self, experiment: LiveExperiment, trials: Mapping[int, TrialRow]) -> None:
        row = experiment.row
        self._experiment, self._trials = experiment, trials
        self._listens = row.state.live and not row.unmanaged
        self._actions: list[search.Action] = []
        self._summary = ExperimentSummary(row.progress, row.best_metric)

    @property
    def end_the_search(self) -> bool:
        """Return whether the search takes no further events."""
        return any(isinstance(action, _ENDS_THE_SEARCH) for action in self._actions)

    def fold(self, new: NewReport) -> NewReport:
        """Return the report with its results. More metrics of a reported step are no event and no best value."""
        if new.row.row_id is not None:
            return new
        row, journal = self._experiment.row, self._experiment.journal
        value = core_metrics.number(new.report.metrics.get(row.metric))
        if value is not None and core_metrics.is_better(
            value, self._summary.best_metric, row.smaller_is_better
        ):
            self._summary.best_metric, self._summary.best_trial_id = value, new.trial.id
            self._summary.shown = True
        best = value is not None and core_metrics.is_better(
            value, new.trial.searcher_metric, row.smaller_is_better
        )
        event = None
        if self._listens:
            request_id = str(self._trials[new.trial.id].request_id)
            event = journal.validation(request_id, new.report.metrics)
        if event is not None:
            self._actions += journal.record(event)
        return replace(
            new, latest=True, best=best, value=value, event=None if event is None else event.to_json()
        )  # fmt: skip

    def write(self, new: Sequence[NewReport]) -> None:
        experiment, summary = self._experiment, self._summary
        if self._listens:
            progress = experiment.journal.progress(experiment.now)
            if progress is not None and abs(progress - (summary.progress or 0.0)) >= _VISIBLE:
                summary.progress, summary.shown = progress, True
        if not metrics.store_with_events(experiment.tx, experiment.row, new, summary):
            raise BatchRejected
        experiment.journal.written()

    def carry_out(self) -> None:
        self._experiment.carry_out(self._actions)
        live.close(self._experiment)
