"""The usual validation reports in two round trips: read under the locks, decide in memory, write everything at once.

Reports of one experiment that come while another is being committed wait for that commit anyway. They share the
next one: one of their threads folds them in the order in which they came, and each is answered after the commit.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from det_controlplane.core import search
from det_controlplane.core.trials import metrics as core_metrics
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.db.experiments.experiments import ExperimentRow
from det_controlplane.db.trials import validations
from det_controlplane.db.trials.validations import ValidatingTrial, Validation
from det_controlplane.services.batching import BatchRejected, Ticket, together_or_each
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.trials.experiment_summary import SummaryUpdate
from det_controlplane.services.use_case import change

_ENDS_THE_SEARCH = (search.Shutdown, search.Fail)

Report = Ticket[MetricsReport, bool]


def take(ctx: Context, experiment_id: int, report: MetricsReport) -> bool:
    """Store a usual report together with other waiting ones. Return False, with nothing changed, for any other
    report."""
    if report.total_batches is None or report.batch_metrics is not None:
        return False
    store = partial(_store_together, ctx, experiment_id)
    together = partial(together_or_each, store=store)
    return bool(ctx.memory.reports.take(experiment_id, report, together))


def _store_together(ctx: Context, experiment_id: int, tickets: Sequence[Report]) -> None:
    """Store the first report of each trial. Later reports of the same trial come in later calls."""
    first = {ticket.item.trial_id: ticket for ticket in reversed(tickets)}
    reports: list[Report] = []
    with change(ctx) as changed:
        steps = {trial_id: t.item.total_batches or 0 for trial_id, t in first.items()}
        rows = validations.lock(changed.tx, experiment_id, steps)
        usual, others = _parted(rows, [t for t in tickets if first[t.item.trial_id] is t])
        if rows is not None and usual:
            experiment = LiveExperiment(ctx, changed, rows[0])
            reports = _Decisions(experiment, rows[1], usual).store()
    for ticket in reports:
        ticket.answer(True)
    for ticket in others:
        ticket.answer(False)


def _parted(
    rows: tuple[ExperimentRow, dict[int, ValidatingTrial]] | None, tickets: Sequence[Report]
) -> tuple[list[Report], list[Report]]:
    """Divide reports into usual ones and others, which need a merge, roll an earlier run back, or have no searcher."""
    usual: list[Report] = []
    others: list[Report] = []
    for ticket in tickets:
        trial = None if rows is None else rows[1].get(ticket.item.trial_id)
        if rows is not None and trial is not None and _is_usual(rows[0], trial, ticket.item):
            usual.append(ticket)
        else:
            others.append(ticket)
    return usual, others


def _is_usual(row: ExperimentRow, trial: ValidatingTrial, report: MetricsReport) -> bool:
    if row.unmanaged or not row.state.live or trial.reported:
        return False
    return report.continues_run(trial.row.run_id, trial.total_batches)


class _Decisions:
    """Folds reports into the search in their order, and collects its decisions."""

    def __init__(
        self,
        experiment: LiveExperiment,
        trials: Mapping[int, ValidatingTrial],
        tickets: Sequence[Report],
    ) -> None:
        self._experiment = experiment
        self._trials = trials
        self._taken: list[Report] = []
        self._new: list[Validation] = []
        self._actions: list[search.Action] = []
        self._update = SummaryUpdate(experiment)
        for ticket in tickets:
            self._take(ticket.item)
            self._taken.append(ticket)
            if any(isinstance(a, _ENDS_THE_SEARCH) for a in self._actions):
                break  # the search has ended and takes no further events
        self._update.look_at_progress()

    def store(self) -> list[Report]:
        """Store the reports and the decisions of the search. Return the stored reports."""
        experiment, journal = self._experiment, self._experiment.journal
        tx, row = experiment.tx, experiment.row
        nothing_follows = len(self._new) == 1 and not self._actions and not journal.snapshot_due
        if not validations.store(tx, row, self._new, self._update.summary):
            raise BatchRejected
        journal.written()
        if nothing_follows:
            return self._taken
        for new in self._new:
            experiment.remember(self._trials[new.trial_id].row)
        experiment.carry_out(self._actions)
        live.close(experiment)
        return self._taken

    def _take(self, report: MetricsReport) -> None:
        assert report.total_batches is not None
        experiment, trial = self._experiment, self._trials[report.trial_id]
        journal = experiment.journal
        event = journal.validation(str(trial.row.request_id), report.metrics)
        if event is not None:
            self._actions += journal.record(event)
        value, best_of_trial = self._update.take(report, trial.searcher_metric)
        self._new.append(
            Validation(
                trial_id=trial.row.id, run_id=report.run_id, steps=report.total_batches,
                metrics=report.metrics, at=report.reported_at or experiment.now,
                summary=core_metrics.summarise(trial.summary or {}, [report.metrics]), value=value,
                best_of_trial=best_of_trial,
                event=None if event is None else event.to_json(),
            )
        )  # fmt: skip
