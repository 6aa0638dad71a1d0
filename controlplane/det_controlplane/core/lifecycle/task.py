"""Tasks that are no trials: their kinds, and whether one is started again (docs/concepts/lifecycle.md#task)."""

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


# The kinds with listings of their own, as their users call them.
NAMES = {
    TaskKind.COMMAND: "command",
    TaskKind.NOTEBOOK: "notebook",
    TaskKind.SHELL: "shell",
    TaskKind.TENSORBOARD: "tensorboard",
}
MAX_FAILURES = 5  # of infrastructure, in a row
# Started again they serve as before. What a command had done when its machine was lost, nobody knows.
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
    """Return whether infrastructure ended a run that may be repeated; `state` is how far the run was.

    A deletion that was asked to leave its machine (`was_asked`) is repeated where nothing else ended it."""
    if kind is TaskKind.CHECKPOINT_GC and was_asked and exit.kind is ExitKind.KILLED:
        return True
    if exit.kind is not ExitKind.INFRASTRUCTURE or failures >= MAX_FAILURES:
        return False
    if kind is TaskKind.CHECKPOINT_GC:
        return True
    return not exit.pull_failed and (kind in _SERVE or state in _NEVER_STARTED)
