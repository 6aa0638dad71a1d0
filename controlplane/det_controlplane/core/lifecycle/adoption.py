"""Decide whether a run that was declared lost goes on, now that its agent is back with its container."""

from collections.abc import Sequence
from dataclasses import dataclass

from det_controlplane.core.lifecycle.allocation import ContainerState, ExitKind
from det_controlplane.core.lifecycle.generic import GenericTaskState
from det_controlplane.core.lifecycle.trial import TrialState


@dataclass(frozen=True, slots=True)
class Successor:
    """A later run of the same task."""

    run_id: int
    ready: bool  # its containers know each other: the program has begun


@dataclass(frozen=True, slots=True)
class LostRun:
    exit_kind: ExitKind | None  # None: it has not ended after all
    containers: int
    successors: Sequence[Successor]
    trial_state: TrialState | None = None
    task_state: GenericTaskState | None = None
    under_killed_task: bool = False
    slots_free: bool = True


@dataclass(frozen=True, slots=True)
class ReturnedContainer:
    """The container of a lost run, as its agent reports it."""

    state: ContainerState
    exit_code: int | None
    failure: str | None

    @property
    def has_ended_by_itself(self) -> bool:
        return self.exit_code is not None and self.failure in (None, "container_failed")


_OVER = (GenericTaskState.CANCELED, GenericTaskState.STOPPING_CANCELED, GenericTaskState.COMPLETED)


def obstacle(run: LostRun, container: ReturnedContainer) -> str:
    """Return why a run cannot go on; empty if it can. A run that ended by itself counts as if it had ended in time."""
    if run.exit_kind is not ExitKind.INFRASTRUCTURE:
        return "it had been told to end"
    if container.state is ContainerState.TERMINATED and not container.has_ended_by_itself:
        return "its container was killed"
    if run.containers > 1:
        return "it ran on several agents"
    begun = [successor.run_id for successor in run.successors if successor.ready]
    if begun:
        return f"run {begun[0]} has begun"
    if run.trial_state is not None and run.trial_state.terminal:
        return "the trial has ended"
    if run.task_state in _OVER or run.under_killed_task:
        return "the task was canceled"
    return "" if run.slots_free else "its slots are used by other work"
