"""The kinds of tasks, the rule for repeating a run, and generic tasks (docs/concepts/lifecycle.md#task)."""

from dataclasses import dataclass
from enum import Enum

from det_controlplane.core.lifecycle.allocation import AllocationState, Exit, ExitKind


class TaskKind(str, Enum):
    TRIAL = "TRIAL"
    NOTEBOOK = "NOTEBOOK"
    SHELL = "SHELL"
    COMMAND = "COMMAND"
    TENSORBOARD = "TENSORBOARD"
    CHECKPOINT_GC = "CHECKPOINT_GC"
    GENERIC = "GENERIC"


# The kinds that have their own listings, by the names that users know.
NAMES = {
    TaskKind.COMMAND: "command",
    TaskKind.NOTEBOOK: "notebook",
    TaskKind.SHELL: "shell",
    TaskKind.TENSORBOARD: "tensorboard",
}
MAX_FAILURES = 5  # infrastructure failures in a row
# These tasks can start again at any time. A lost command cannot: its effects up to the loss are unknown.
_SERVE = (TaskKind.NOTEBOOK, TaskKind.SHELL, TaskKind.TENSORBOARD)
_NEVER_STARTED = (
    AllocationState.QUEUED,
    AllocationState.ASSIGNED,
    AllocationState.PULLING,
    AllocationState.STARTING,
)


def runs_again(
    kind: TaskKind, state: AllocationState, exit: Exit, failures: int, *, was_asked: bool = False
) -> bool:
    """Return whether a run that infrastructure ended is repeated. `state` is the last state that the run reached.

    A checkpoint deletion that was killed after a request to release its machine (`was_asked`) is repeated too."""
    if kind is TaskKind.CHECKPOINT_GC and was_asked and exit.kind is ExitKind.KILLED:
        return True
    if exit.kind is not ExitKind.INFRASTRUCTURE or failures >= MAX_FAILURES:
        return False
    if kind is TaskKind.CHECKPOINT_GC:
        return True
    return not exit.pull_failed and (kind in _SERVE or state in _NEVER_STARTED)


class GenericTaskState(str, Enum):
    ACTIVE = "ACTIVE"
    STOPPING_PAUSED = "STOPPING_PAUSED"
    PAUSED = "PAUSED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    ERROR = "ERROR"

    @property
    def terminal(self) -> bool:
        return not NEXT[self]


S = GenericTaskState
NEXT: dict[S, frozenset[S]] = {
    S.ACTIVE: frozenset(
        {S.STOPPING_PAUSED, S.PAUSED, S.STOPPING_CANCELED, S.COMPLETED, S.CANCELED, S.ERROR}
    ),
    S.STOPPING_PAUSED: frozenset({S.PAUSED, S.STOPPING_CANCELED, S.COMPLETED, S.ERROR}),
    S.PAUSED: frozenset({S.ACTIVE, S.CANCELED}),
    S.STOPPING_CANCELED: frozenset({S.CANCELED}),
    S.COMPLETED: frozenset(),
    S.CANCELED: frozenset(),
    S.ERROR: frozenset(),
}


class NotAllowed(Exception):
    """The state does not allow the request. The message gives the reason."""


def after_pause(state: S, *, may_pause: bool) -> S:
    """Return the state after a pause request. A repeated request has no effect."""
    if not may_pause:
        raise NotAllowed("was created to run without pauses")
    if state is S.ACTIVE:
        return S.STOPPING_PAUSED
    if state in (S.STOPPING_PAUSED, S.PAUSED):
        return state
    raise NotAllowed(f"cannot be paused in state {state.value}")


def after_unpause(state: S) -> S:
    if state in (S.PAUSED, S.ACTIVE):
        return S.ACTIVE
    if state is S.STOPPING_PAUSED:
        raise NotAllowed("is still stopping: ask again when it is PAUSED")
    raise NotAllowed(f"cannot go on in state {state.value}")


def after_kill(state: S) -> S:
    """Return the state after a kill request. Terminal states do not change."""
    if state is S.PAUSED:
        return S.CANCELED
    return state if state.terminal else S.STOPPING_CANCELED


def outcome(exit: Exit) -> S:
    """Return how a task of any kind ended that does not run again."""
    if exit.kind is ExitKind.CLEAN:
        return S.COMPLETED
    is_failure = exit.kind in (ExitKind.FAILED, ExitKind.INFRASTRUCTURE)
    return S.ERROR if is_failure else S.CANCELED


@dataclass(frozen=True, slots=True)
class AfterExit:
    """The state after the end of an allocation, and whether the task gets another allocation now."""

    state: S
    runs_again: bool = False


def after_exit(
    state: S, reached: AllocationState, exit: Exit, failures: int, *, was_asked: bool = False
) -> AfterExit:
    """Return the state after an exit. `failures` counts the infrastructure failures in a row, including this one.

    A task that the scheduler preempted (`was_asked`) runs again later, also if it had to be killed."""
    if state is S.STOPPING_CANCELED:
        return AfterExit(S.CANCELED)
    if exit.kind in (ExitKind.CLEAN, ExitKind.FAILED):
        return AfterExit(outcome(exit))
    if state is S.STOPPING_PAUSED:
        return AfterExit(S.PAUSED)
    if exit.kind is ExitKind.PREEMPTED or (was_asked and exit.kind is ExitKind.KILLED):
        return AfterExit(S.ACTIVE, runs_again=True)
    if exit.kind is ExitKind.INFRASTRUCTURE:
        again = runs_again(TaskKind.GENERIC, reached, exit, failures)
        return AfterExit(S.ACTIVE, runs_again=True) if again else AfterExit(outcome(exit))
    return AfterExit(outcome(exit))


def after_return(state: S) -> S:
    """Return the state of a task with a lost run that continues. The loss made the task fail or completed a pause."""
    return {S.ERROR: S.ACTIVE, S.PAUSED: S.STOPPING_PAUSED}.get(state, state)
