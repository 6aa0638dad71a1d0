"""The states of an allocation, and the exit of its containers (docs/concepts/lifecycle.md#allocation)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum


class AllocationState(str, Enum):
    QUEUED = "QUEUED"
    ASSIGNED = "ASSIGNED"
    PULLING = "PULLING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"


class ContainerState(str, Enum):
    ASSIGNED = "ASSIGNED"
    PULLING = "PULLING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TERMINATED = "TERMINATED"


class Signal(Enum):
    """A request to a live allocation."""

    NONE = "none"
    TERMINATE = (
        "terminate"  # save a checkpoint and exit; the allocation is killed if this takes too long
    )
    KILL = "kill"


class Failure(str, Enum):
    """The causes of a container's end, other than the exit of its program."""

    # The program or its configuration failed. This is the only failure that the user causes.
    CONTAINER_FAILED = "container_failed"
    IMAGE_PULL = "image_pull"
    AGENT_ERROR = "agent_error"
    AGENT_LOST = "agent_lost"
    ABORTED = "aborted"


class ExitKind(Enum):
    NEVER_RAN = "never ran"
    KILLED = "killed"
    PREEMPTED = "preempted"
    CLEAN = "clean"
    FAILED = "failed"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True, slots=True)
class ContainerExit:
    exit_code: int | None
    failure: Failure | None
    message: str = ""
    daemon: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    kind: ExitKind
    message: str = ""
    pull_failed: bool = False
    exit_code: int | None = None


_ORDER = tuple(ContainerState)
# The exit status of a launcher of an elastic trial that lost another one (determined.launch._watch).
LOST_PEER_STATUS = 75


def state_of(containers: Sequence[ContainerState]) -> AllocationState:
    """Return the state of an allocation: its most advanced container decides, until the first one exits."""
    if not containers:
        return AllocationState.QUEUED
    if ContainerState.TERMINATED in containers:
        all_ended = all(c is ContainerState.TERMINATED for c in containers)
        return AllocationState.TERMINATED if all_ended else AllocationState.TERMINATING
    return AllocationState(max(containers, key=_ORDER.index).value)


def can_checkpoint(preemptible: bool, ready: bool, signal: Signal) -> bool:
    """Return whether a running allocation saves a checkpoint on a signal. Its rendezvous must be complete."""
    return signal is Signal.TERMINATE and preemptible and ready


def is_setback(exit: Exit, *, ready: bool) -> bool:
    """Return whether infrastructure ended a run before it was ready. Such runs are retried with growing delays."""
    return exit.kind is ExitKind.INFRASTRUCTURE and not ready


def classify(
    exits: Sequence[ContainerExit], *, killed_before_exit: bool, preempt_acked: bool
) -> Exit:
    """Return the first kind of exit that applies. Daemons count only if every container is a daemon.

    A container that was killed because another container failed (ABORTED) does not count."""
    if not exits:
        return Exit(ExitKind.NEVER_RAN)
    infrastructure = _first(exits, _is_infrastructure)
    if killed_before_exit:
        return Exit(ExitKind.KILLED, "killed", exit_code=exits[0].exit_code)
    if preempt_acked:
        return Exit(ExitKind.PREEMPTED, "stopped after a checkpoint", exit_code=exits[0].exit_code)
    gating = [e for e in exits if not e.daemon] or list(exits)
    failure = _first(gating, _is_failure)
    if failure is not None and infrastructure is None:
        return Exit(
            ExitKind.FAILED, failure.message or _sentence(failure), exit_code=failure.exit_code
        )
    infrastructure = infrastructure or _first(gating, _is_aborted)
    if infrastructure is not None:
        pull = infrastructure.failure is Failure.IMAGE_PULL
        return Exit(
            ExitKind.INFRASTRUCTURE, _sentence(infrastructure), pull, infrastructure.exit_code
        )
    return Exit(ExitKind.CLEAN, "ended", exit_code=0)


def excuse_lost_peers(exits: Sequence[ContainerExit]) -> list[ContainerExit]:
    """Return the exits of an elastic gang. A launcher that lost another one is no failure of the program."""
    message = "a rank lost the connection to another one"
    return [
        replace(e, failure=Failure.ABORTED, message=message)
        if e.exit_code == LOST_PEER_STATUS
        else e
        for e in exits
    ]


def _first(
    exits: Sequence[ContainerExit], test: Callable[[ContainerExit], bool]
) -> ContainerExit | None:
    return next((e for e in exits if test(e)), None)


def _is_infrastructure(e: ContainerExit) -> bool:
    return e.failure not in (None, Failure.CONTAINER_FAILED, Failure.ABORTED)


def _is_aborted(e: ContainerExit) -> bool:
    return e.failure is Failure.ABORTED


def _is_failure(e: ContainerExit) -> bool:
    return e.failure is Failure.CONTAINER_FAILED or (e.failure is None and bool(e.exit_code))


def _sentence(e: ContainerExit) -> str:
    if e.message:
        return e.message
    if e.failure is Failure.AGENT_LOST:
        return "the agent was lost"
    if e.exit_code:
        return f"container failed with non-zero exit code: {e.exit_code}"
    failure: Failure = e.failure or Failure.ABORTED
    return str(failure.value).replace("_", " ")


def _failure_words(exit: Exit) -> str:
    """Return the text after "exit code:", with the code if the task's own sentence does not contain it."""
    if exit.exit_code is None or str(exit.exit_code) in exit.message:
        return exit.message
    return f"{exit.exit_code} ({exit.message})"


def end_sentence(exit: Exit, stop_reason: str) -> str:
    """Return the log line about the end of an allocation. Scripts search logs for these words."""
    because = f": {stop_reason}" if stop_reason else ""
    lost = f"image pull failed: {exit.message}" if exit.pull_failed else exit.message
    return {
        ExitKind.CLEAN: "allocation stopped after resources exited successfully with a zero exit code",
        ExitKind.FAILED: f"allocation failed: resources failed with non-zero exit code: {_failure_words(exit)}",
        ExitKind.KILLED: f"allocation killed{because}",
        ExitKind.PREEMPTED: f"allocation stopped early{because}",
        ExitKind.NEVER_RAN: f"allocation ended before it started: {exit.message or stop_reason}",
        ExitKind.INFRASTRUCTURE: f"allocation failed: {lost}",
    }[exit.kind]
