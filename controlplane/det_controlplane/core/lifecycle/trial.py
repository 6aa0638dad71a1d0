"""The states of a trial, and its state after the end of an allocation (docs/concepts/lifecycle.md#trial)."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum

from det_controlplane.core.lifecycle.allocation import Exit, ExitKind, Signal
from det_controlplane.core.search.events import ExitReason

# After so many failed pulls in a row, the image is considered wrong and the trial fails.
MAX_PULL_FAILURES = 3
# Later hangs of a trial count as restarts: a program that always hangs must not run forever.
MAX_UNCHARGED_HANGS = 3
FIRST_RETRY_DELAY = timedelta(seconds=5)
LONGEST_RETRY_DELAY = timedelta(minutes=5)


class TrialState(str, Enum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    STOPPING_KILLED = "STOPPING_KILLED"
    STOPPING_ERROR = "STOPPING_ERROR"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    ERROR = "ERROR"

    @property
    def terminal(self) -> bool:
        return self in (S.COMPLETED, S.CANCELED, S.ERROR)

    @property
    def stopping(self) -> bool:
        return self in _SEVERITY


S = TrialState

_NOT_RETRIED = "trial failed and matched logs to a don't retry policy"
_OUT_OF_AGENTS = "log policies exclude so many agents that those left have too few slots for it"
_SEVERITY = {
    S.STOPPING_COMPLETED: 1,
    S.STOPPING_CANCELED: 2,
    S.STOPPING_KILLED: 3,
    S.STOPPING_ERROR: 4,
}
_END_OF = {
    S.STOPPING_COMPLETED: S.COMPLETED,
    S.STOPPING_CANCELED: S.CANCELED,
    S.STOPPING_KILLED: S.CANCELED,
    S.STOPPING_ERROR: S.ERROR,
}


def end_of(state: S) -> S:
    return _END_OF[state]


def after_patch(state: S, target: S) -> S:
    """Return the state after a request. Terminal states stay, and stopping only becomes more severe."""
    if state.terminal or target.terminal:
        return state
    if state.stopping and _SEVERITY.get(target, 0) < _SEVERITY[state]:
        return state
    return target


def signal_for(state: S) -> Signal:
    if state in (S.PAUSED, S.STOPPING_COMPLETED, S.STOPPING_CANCELED):
        return Signal.TERMINATE
    return Signal.KILL if state in (S.STOPPING_KILLED, S.STOPPING_ERROR) else Signal.NONE


@dataclass(frozen=True, slots=True)
class TrialView:
    """The facts about a trial that decide its state after an exit."""

    state: S
    restarts: int
    max_restarts: int
    stopped_by_searcher: bool
    early_exit: ExitReason | None  # as its program reported
    parked: bool  # it waits at a rung for its promotion
    retries_cancelled: bool  # a log policy matched
    out_of_agents: bool  # log policies leave it fewer slots than it needs
    pull_failures: int  # in a row, including this one
    hangs: int = (
        0  # if this run was ended because it hung: how many runs of the trial were, with this one
    )


@dataclass(frozen=True, slots=True)
class AfterExit:
    """The trial's next state, and whether a new run counts as a restart. ACTIVE means that it runs again."""

    state: S
    counts_as_restart: bool = False
    reason: str = ""


def after_exit(trial: TrialView, exit: Exit) -> AfterExit:
    """Return the state of a trial after an exit. The first rule that applies decides."""
    is_failure = exit.kind is ExitKind.FAILED
    if trial.state.stopping:
        return AfterExit(S.ERROR if is_failure else end_of(trial.state), False, exit.message)
    if trial.stopped_by_searcher:
        return AfterExit(S.ERROR if is_failure else S.COMPLETED, False, exit.message)
    if exit.pull_failed and trial.pull_failures >= MAX_PULL_FAILURES:
        return AfterExit(S.ERROR, False, f"{exit.message} ({trial.pull_failures} times in a row)")
    # This rule precedes the retries: the program has reported that another run is useless.
    if trial.early_exit is not None:
        return AfterExit(S.COMPLETED, False, early_exit_sentence(trial.early_exit))
    if exit.kind is ExitKind.INFRASTRUCTURE:
        return AfterExit(trial.state, False, exit.message)
    if is_failure:
        return _after_failure(trial, exit)
    if exit.kind is ExitKind.KILLED and trial.hangs > MAX_UNCHARGED_HANGS:
        return _after_failure(trial, replace(exit, message="no rank made progress"))
    if exit.kind is ExitKind.CLEAN and not trial.parked:
        return AfterExit(S.COMPLETED)
    return AfterExit(trial.state)


def early_exit_sentence(reason: ExitReason) -> str:
    if reason is ExitReason.USER_REQUESTED_STOP:
        return "the trial asked to stop"
    return "the trial reported invalid hyperparameters"


def _after_failure(trial: TrialView, exit: Exit) -> AfterExit:
    if trial.retries_cancelled:
        return AfterExit(S.ERROR, False, f"{exit.message}; {_NOT_RETRIED}")
    if trial.restarts + 1 > trial.max_restarts:
        often = "once" if trial.restarts == 0 else f"{trial.restarts + 1} times"
        limit = f"it has failed {often} and max_restarts is {trial.max_restarts}"
        return AfterExit(S.ERROR, False, f"{exit.message}; {limit}")
    if trial.out_of_agents:
        return AfterExit(S.ERROR, False, f"{exit.message}; {_OUT_OF_AGENTS}")
    return AfterExit(trial.state, True, exit.message)


def retry_delay(setbacks: int) -> timedelta:
    """Return the delay before the next run. `setbacks` counts lost runs in a row that never became ready."""
    if setbacks < 2:
        return timedelta(0)
    doublings: int = 2 ** min(setbacks - 2, 16)
    return min(FIRST_RETRY_DELAY * doublings, LONGEST_RETRY_DELAY)


def log_line(trial: TrialView, exit: Exit, after: AfterExit, delay: timedelta | None = None) -> str:
    """Return a line for the trial's log about the end of a run, or '' if the end needs no explanation."""
    if after.state is S.ERROR:
        return f"The trial failed: {after.reason}."
    if after.counts_as_restart:
        count = f"restart {trial.restarts + 1} of {trial.max_restarts}"
        return f"The run failed: {after.reason}. It goes on from its newest checkpoint, if it has one ({count})."
    if exit.kind is ExitKind.INFRASTRUCTURE and not after.state.terminal:
        when = f" in {delay.total_seconds():.0f} s" if delay else ""
        return f"The run was lost: {exit.message}. It starts again{when}; this is not counted as a restart."
    if exit.kind is ExitKind.KILLED and trial.hangs and not after.state.terminal:
        often = f"hang {trial.hangs} of {MAX_UNCHARGED_HANGS}"
        return f"The run hung. It starts again from its newest checkpoint; this is not counted as a restart ({often})."
    if exit.kind is ExitKind.PREEMPTED and not after.state.terminal:
        return "The run stopped as it was asked to, and frees its slots."
    return ""
