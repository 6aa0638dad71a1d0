"""The kinds of tasks, and the rule for repeating a run of a task (docs/concepts/lifecycle.md#task)."""

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
