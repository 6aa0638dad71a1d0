"""A live experiment under its row lock: every change to it, its trials and their allocations goes through here."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from det_controlplane.core import search
from det_controlplane.core.lifecycle import experiment as experiment_states
from det_controlplane.core.lifecycle import trial as trial_states
from det_controlplane.core.lifecycle.allocation import AllocationState, Exit, ExitKind, Signal
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.core.search import ExitReason
from det_controlplane.db.engine.database import as_json
from det_controlplane.db.experiments import experiments
from det_controlplane.db.experiments.experiments import ExperimentRow
from det_controlplane.db.logs import logs
from det_controlplane.db.logs.logs import NamedLine
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.scheduling.allocations import AllocationRow, Delay
from det_controlplane.db.trials import trials
from det_controlplane.db.trials.trials import PlannedTrial, TrialRow
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.logs import policies
from det_controlplane.services.scheduling import capacity, stopping
from det_controlplane.services.search.journal import Journal
from det_controlplane.services.use_case import Change, change

MOST_HPARAMS = 64 << 20  # characters of the trials that are created at once
# Why a trial is signalled that goes to a state.
_WHY = {
    TrialState.PAUSED: "the experiment was paused",
    TrialState.STOPPING_COMPLETED: "the searcher stopped the trial",
    TrialState.STOPPING_CANCELED: "the experiment was canceled",
    TrialState.STOPPING_KILLED: "the experiment or trial was killed",
    TrialState.STOPPING_ERROR: "the experiment failed",
}


class LiveExperiment:
    """Holds the lock for one transaction. `feed` lets the searcher decide; its decisions are applied at once."""

    def __init__(self, ctx: Context, change: Change, row: ExperimentRow) -> None:
        self.ctx = ctx
        self.tx = change.tx
        self.row = row
        self.change = change
        self.now = change.now
        self.journal = Journal(ctx, change.tx, row)
        change.when_committed(self.journal.keep)
        self._events: deque[search.Event] = deque()
        self._known: dict[str, TrialRow] = {}

    def remember(self, trial: TrialRow) -> None:
        """Keep a trial that was read under the lock already, so that it is not read again."""
        self._known[str(trial.request_id)] = trial

    def feed(self, *events: search.Event) -> None:
        """Pass events to the searcher and apply its decisions until it makes no further decisions."""
        self._events.extend(events)
        while self._events:
            event = self._events.popleft()
            if not self.row.state.live:
                self._events.clear()
                break
            self._apply_all(self.journal.record(event))
        self._finish_if_done()

    def carry_out(self, actions: Sequence[search.Action]) -> None:
        """Apply decisions about an event that the journal has recorded, and their consequences."""
        self._apply_all(actions)
        self.feed()

    def _apply_all(self, actions: Sequence[search.Action]) -> None:
        """Apply actions in their order; trials that are created or stopped in a row are written together."""
        created: dict[str, PlannedTrial] = {}
        stopped: list[search.Stop] = []
        for action in actions:
            match action:
                case search.Create(request_id):
                    created[request_id] = _plan_trial(action)
                case search.TrainTo(request_id, length) if request_id in created:
                    created[request_id].train_to = length
                case search.Rest(request_id) if request_id in created:
                    created[request_id].parked = True
                case search.Stop(request_id) if request_id not in created:
                    stopped.append(action)
                case _:
                    self._create_trials(list(created.values()))
                    self._stop_trials(stopped)
                    created, stopped = {}, []
                    self._apply(action)
        self._create_trials(list(created.values()))
        self._stop_trials(stopped)

    def _stop_trials(self, stops: Sequence[search.Stop]) -> None:
        """Stop trials as the searcher decided."""
        early = {stop.request_id: stop.early for stop in stops}
        live = self._live_trials(list(early))
        for trial in live:
            trial.stop_requested, trial.stopped_early = True, early[str(trial.request_id)]
        self.patch_trials(live, TrialState.STOPPING_COMPLETED)

    def _create_trials(self, planned: Sequence[PlannedTrial]) -> None:
        """Create trials all at once: searches begin with thousands."""
        if not planned:
            return
        _refuse_too_large(planned)
        state = TrialState(self.row.state.value)
        self.change.trials_created(len(planned))
        trials.insert_many(self.tx, self.row.id, planned, state, self.now)
        if state is TrialState.ACTIVE:
            self.change.queue_changed(self.row.pool)

    def _apply(self, action: search.Action) -> None:
        match action:
            case search.Stop():
                self._stop_trials([action])
            case search.TrainTo():
                self._train_to(action)
            case search.Park(request_id):
                self._park(request_id)
            case search.Rest(request_id):
                self._rest(request_id)
            case search.Shutdown():
                self._shutdown(action)
            case search.Fail():
                self.set_state(ExperimentState.STOPPING_ERROR, error=self._failure_message(action))

    def _failure_message(self, fail: search.Fail) -> str:
        """Return a sentence that names trials by their numbers instead of request ids."""
        trial = self._by_request(fail.request_id) if fail.request_id else None
        if trial is None:
            return fail.reason
        return fail.reason.replace(f"trial {fail.request_id}", f"trial {trial.id}")

    def _train_to(self, action: search.TrainTo) -> None:
        trial = self._live_trial(action.request_id)
        if trial is None:
            return
        values = {"train_to": action.length, "op_completed": False, "parked": False}
        trials.update(self.tx, trial.id, **values)
        if trial.parked:
            trial.parked = False
            # The program leaves because its trial was parked, so its exit does not end the trial.
            allocations.mark_preemption_acknowledged(self.tx, trial.task_id)
            self.change.operation_changed(trial.id)
            if trial.state is TrialState.ACTIVE:
                self._allocate(trial)

    def _park(self, request_id: str) -> None:
        trial = self._rest(request_id)
        if trial is not None:
            reason = "the searcher parked the trial until it is promoted"
            self._signal([trial], Signal.TERMINATE, reason)

    def _rest(self, request_id: str) -> TrialRow | None:
        """Park a trial: it starts no run until the searcher lets it train. Return it, or None if it has ended."""
        trial = self._live_trial(request_id)
        if trial is not None:
            trials.update(self.tx, trial.id, parked=True)
            trial.parked = True
        return trial

    def _shutdown(self, action: search.Shutdown) -> None:
        if action.failure:
            self.set_state(ExperimentState.STOPPING_ERROR, error="every trial failed")
        elif action.cancel:
            self.set_state(ExperimentState.STOPPING_CANCELED)
        else:
            self.set_state(ExperimentState.STOPPING_COMPLETED)

    def set_state(self, state: ExperimentState, error: str = "") -> None:
        """Move the experiment and bring its live trials along."""
        if state is self.row.state or not experiment_states.allowed(self.row.state, state):
            return
        experiments.set_state(self.tx, self.row.id, state, self.now, error)
        self.row.state = state
        if not state.terminal:
            self.patch_trials(trials.live(self.tx, self.row.id), TrialState(state.value))
        is_paused = state is ExperimentState.PAUSED
        if is_paused and experiments.searcher_name(self.tx, self.row.id) == "custom":
            # Inform the external search method that its experiment was paused.
            self._events.append(search.Inactivated(f"STATE_{state.value}"))
        self._finish_if_done()

    def patch_trials(self, patched: Sequence[TrialRow], target: TrialState) -> None:
        """Change the states of trials. Signal their allocations; end trials that have none."""
        by_state: dict[TrialState, list[TrialRow]] = {}
        for trial in patched:
            state = trial_states.after_patch(trial.state, target)
            by_state.setdefault(state, []).append(trial)
        for state, group in by_state.items():
            changed = [trial for trial in group if trial.state is not state]
            if changed:
                trials.set_state(self.tx, changed, state, self.now)
            if state is TrialState.ACTIVE:
                for trial in group:
                    self._allocate(trial)
            elif not state.terminal:
                self._signal(group, trial_states.signal_for(state), _WHY.get(state, ""))

    def _signal(self, signalled: Sequence[TrialRow], signal: Signal, reason: str) -> None:
        """Signal the allocations of trials. End the stopping trials that have no allocation."""
        rows = allocations.live_of_tasks(self.tx, [trial.task_id for trial in signalled])
        live = {row.task_id: row for row in rows}
        by_task = {trial.task_id: trial for trial in signalled}
        for trial in signalled:
            if trial.parked:
                self.change.operation_changed(trial.id)
        running = [row for row in rows if not _ends_by_itself(by_task[row.task_id], row)]
        for row, exit in stopping.signal_all(self.change, running, signal, reason):
            self.allocation_ended(by_task[row.task_id], exit)
        for trial in signalled:
            if trial.task_id not in live and trial.state.stopping:
                line = NamedLine(trial.task_id, f" was terminated: {reason}")
                logs.add_named_lines(self.tx, [line], self.now)
                self._end_trial(trial, trial_states.end_of(trial.state))

    def end_early(self, trial: TrialRow, reason: ExitReason) -> None:
        """End a trial that reported an early exit. A running program ends by itself: at once if its hyperparameters
        are invalid; after a requested stop it may store its checkpoint first."""
        why = trial_states.early_exit_sentence(reason)
        allocation = allocations.live_of_task(self.tx, trial.task_id)
        if allocation is None:
            self._end_trial(trial, TrialState.COMPLETED)
        elif allocation.state is AllocationState.QUEUED:
            exit = stopping.signal(self.change, allocation, Signal.KILL, why)
            assert exit is not None
            self.allocation_ended(trial, exit)
        elif reason is not ExitReason.USER_REQUESTED_STOP:
            stopping.kill_soon(self.change, allocation, why)
        self.feed()

    def _allocate(self, trial: TrialRow, delay: Delay | None = None) -> None:
        if trial.stop_requested or trial.early_exit or trial.parked:
            return
        if allocations.live_of_task(self.tx, trial.task_id) is None:
            pool = trials.request_allocation(self.tx, trial, self.change.now, delay)
            self.change.queue_changed(pool)

    def allocation_ended(self, trial: TrialRow, exit: Exit) -> None:
        """Advance a trial after the end of its allocation."""
        view = trial_states.TrialView(
            state=trial.state,
            restarts=trial.restarts,
            max_restarts=self.row.max_restarts,
            stopped_by_searcher=trial.stop_requested,
            early_exit=ExitReason(trial.early_exit) if trial.early_exit else None,
            parked=trial.parked
            or (exit.kind is ExitKind.CLEAN and trials.is_parked_run_ending(self.tx, trial.id)),
            retries_cancelled=policies.cancels_retries(self.tx, trial.id, trial.log_policy_matched),
            out_of_agents=exit.kind is ExitKind.FAILED and self._has_no_usable_agents(trial),
            pull_failures=allocations.pull_failures(self.tx, trial.task_id)
            if exit.pull_failed
            else 0,
            hangs=allocations.hangs(self.tx, trial.task_id, trial.run_id)
            if exit.kind is ExitKind.KILLED
            else 0,
        )
        after = trial_states.after_exit(view, exit)
        delay = self._delay(trial, exit)
        line = trial_states.log_line(view, exit, after, delay.until - self.now if delay else None)
        if line:
            logs.add_line(self.tx, trial.task_id, line, self.now)
        if after.counts_as_restart:
            trial.restarts += 1
            trials.update(self.tx, trial.id, restarts=trial.restarts)
        if after.state.terminal:
            self._end_trial(trial, after.state)
        elif after.state is TrialState.ACTIVE:
            self._allocate(trial, delay)

    def _has_no_usable_agents(self, trial: TrialRow) -> bool:
        """Return whether the trial can never run again: its pool rents no machines, and too few agents are left for
        it."""
        if not trial.blocked_agents or not self.ctx.config.launch_error:
            return False
        row, blocked = self.row, trial.blocked_agents
        return capacity.is_exhausted(self.ctx, self.tx, row.pool, blocked, row.least_slots)

    def _delay(self, trial: TrialRow, exit: Exit) -> Delay | None:
        """Delay runs that repeatedly fail before they start."""
        if exit.kind is not ExitKind.INFRASTRUCTURE:
            return None
        setbacks = allocations.setbacks(self.tx, trial.task_id)
        wait = trial_states.retry_delay(setbacks)
        if not wait:
            return None
        until = self.now + wait
        return Delay(
            until,
            f"failed to start {setbacks} times in a row, the last time because: {exit.message}; "
            f"it is tried again at {until:%H:%M:%S} UTC",
        )

    def _end_trial(self, trial: TrialRow, state: TrialState) -> None:
        if trial.state.terminal:
            return
        trials.set_state(self.tx, [trial], state, self.now)
        request = str(trial.request_id)
        if state is TrialState.ERROR:
            self._events.append(search.ExitedEarly(request, ExitReason.ERRORED))
        elif state is TrialState.CANCELED:
            self._events.append(search.ExitedEarly(request, ExitReason.USER_CANCELED))
        self._events.append(search.Exited(request))
        self.change.trial_ended(trial.task_id)

    def _finish_if_done(self) -> None:
        if self._events and self.row.state.live:
            self.feed()
            return
        if self.row.state.stopping and not trials.any_live(self.tx, self.row.id):
            state = experiment_states.end_of(self.row.state)
            experiments.set_state(self.tx, self.row.id, state, self.now)
            self.row.state = state
            self.change.experiment_ended(self.row.id)
            self.change.wake(searcher_topic(self.row.id))

    def _live_trial(self, request_id: str) -> TrialRow | None:
        return next(iter(self._live_trials([request_id])), None)

    def _live_trials(self, request_ids: Sequence[str]) -> list[TrialRow]:
        in_memory = [self._known.pop(r) for r in request_ids if r in self._known]
        unread = set(request_ids) - {str(trial.request_id) for trial in in_memory}
        read = trials.by_requests(self.tx, self.row.id, sorted(unread)) if unread else []
        return [trial for trial in [*in_memory, *read] if not trial.state.terminal]

    def _by_request(self, request_id: str) -> TrialRow | None:
        trial = self._known.pop(request_id, None)
        return trial or trials.by_request(self.tx, self.row.id, request_id)


def searcher_topic(experiment_id: int) -> str:
    """Return the topic on which a wait for the events of a remote search method is woken."""
    return f"searcher:{experiment_id}"


def _ends_by_itself(trial: TrialRow, allocation: AllocationRow) -> bool:
    """Return whether the program of a trial in a failed search has reported its end and is still writing its log."""
    has_reported_end = trial.early_exit is not None and trial.state is TrialState.STOPPING_ERROR
    return has_reported_end and allocation.state is not AllocationState.QUEUED


def _plan_trial(action: search.Create) -> PlannedTrial:
    return PlannedTrial(
        action.request_id, action.seed, action.hparams, action.warm_start_from, action.checkpoint
    )


def _refuse_too_large(planned: Sequence[PlannedTrial]) -> None:
    """Refuse a search with first trials that fill the memory. Constants are a part of each trial's hyperparameters."""
    size = len(planned) * len(as_json(planned[0].hparams))
    if len(planned) > 1 and size > MOST_HPARAMS:
        raise Invalid(
            f"the search begins with {len(planned)} trials, whose hyperparameters have {size >> 20} MiB together and may have"
            f" {MOST_HPARAMS >> 20}: lower searcher.max_concurrent_trials, or give constants by files or `data`"
        )


@contextmanager
def locked_experiment(ctx: Context, experiment_id: int) -> Iterator[LiveExperiment]:
    """Lock an experiment and let the caller change it; its journal is written with the change."""
    with ctx.memory.turn(experiment_id), change(ctx) as changed:
        row = experiments.lock(changed.tx, experiment_id)
        if row is None:
            raise Missing(f"experiment {experiment_id} not found")
        live = LiveExperiment(ctx, changed, row)
        yield live
        close(live)


def close(live: LiveExperiment) -> None:
    """Write the rows that come last before the commit."""
    live.feed()
    if live.journal.has_remote_events:
        live.change.wake(searcher_topic(live.row.id))
    live.journal.write()
