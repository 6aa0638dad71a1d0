"""Decide whether a run that was declared lost continues, now that an agent is back with a container of it."""

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
class Peer:
    """Another container of a run over several agents."""

    agent_id: str
    state: ContainerState
    exit_code: int | None
    failure: str | None
    agent_away: bool  # its agent is lost and may join again
    heard_end: bool  # its agent has polled since the run began to end, and has killed the container

    @property
    def ended_well(self) -> bool:
        return (
            self.state is ContainerState.TERMINATED and self.exit_code == 0 and self.failure is None
        )

    @property
    def is_awaited(self) -> bool:
        """Return whether the container may still run on an agent that has not joined again."""
        return self.failure == "agent_lost" and self.agent_away and not self.heard_end

    @property
    def is_live(self) -> bool:
        """Return whether the container runs and its agent does not know yet that the run was to end."""
        return self.state is not ContainerState.TERMINATED and not self.heard_end

    @property
    def obstacle(self) -> str:
        """Return why this container keeps its run from going on; empty if it does not."""
        if self.ended_well or self.is_awaited or self.is_live:
            return ""
        if self.failure == "agent_lost" and not self.agent_away:
            return f"its container on agent {self.agent_id} is gone"
        return f"its container on agent {self.agent_id} was stopped"


@dataclass(frozen=True, slots=True)
class LostRun:
    exit_kind: ExitKind | None  # None: a container on another agent has not ended yet
    successors: Sequence[Successor]
    peers: Sequence[Peer] = ()
    ready: bool = True  # its containers have met
    heard_end: bool = False  # the agent has polled since the run began to end
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
    """Return the reason why a run cannot continue, or ''.

    A run that has ended by itself counts as if it had ended in time."""
    if run.exit_kind not in (ExitKind.INFRASTRUCTURE, None):
        return "it had been told to end"
    if container.state is ContainerState.TERMINATED and not container.has_ended_by_itself:
        return "its container was killed"
    if run.peers and (reason := _obstacle_of_gang(run, container)):
        return reason
    begun = [successor.run_id for successor in run.successors if successor.ready]
    if begun:
        return f"run {begun[0]} has begun"
    if run.trial_state is not None and run.trial_state.terminal:
        return "the trial has ended"
    if run.task_state in _OVER or run.under_killed_task:
        return "the task was canceled"
    return "" if run.slots_free else "its slots are used by other work"


def _obstacle_of_gang(run: LostRun, container: ReturnedContainer) -> str:
    """Return why a run over several agents cannot continue: all of its containers must run or have ended well."""
    if run.heard_end:
        return "it had been told to end"
    if container.state is ContainerState.TERMINATED and container.exit_code != 0:
        return "its container failed"
    if not run.ready:
        return "its containers had not met"  # a later run repeats no training
    return next(filter(None, (peer.obstacle for peer in run.peers)), "")
