"""Decide whether a lost run continues after its agent has joined again with a container of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from det_controlplane.core.lifecycle.allocation import ContainerState, ExitKind
from det_controlplane.core.lifecycle.task import GenericTaskState
from det_controlplane.core.lifecycle.trial import TrialState


@dataclass(frozen=True, slots=True)
class Successor:
    """A later run of the same task."""

    run_id: int
    ready: bool  # its rendezvous is complete, so the program has started


@dataclass(frozen=True, slots=True)
class Peer:
    """A container of the same run on another agent."""

    agent_id: str
    state: ContainerState
    exit_code: int | None
    failure: str | None
    agent_away: bool  # its agent is lost and may join again
    heard_end: bool  # its agent has polled since the run began to end, and has therefore killed the container

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
        """Return whether the container runs and its agent has not been ordered to kill it."""
        return self.state is not ContainerState.TERMINATED and not self.heard_end

    @property
    def obstacle(self) -> str:
        """Return why this container prevents its run from continuing, or ''."""
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
    ready: bool = True  # the rendezvous of its containers is complete
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

    A container that ended by itself during the agent's absence counts as if its exit had been reported in time."""
    if run.exit_kind not in (ExitKind.INFRASTRUCTURE, None):
        return "it had been told to end"
    if container.state is ContainerState.TERMINATED and not container.has_ended_by_itself:
        return "its container was killed"
    if run.peers and (reason := _obstacle_of_gang(run, container)):
        return reason
    started_runs = [successor.run_id for successor in run.successors if successor.ready]
    if started_runs:
        return f"run {started_runs[0]} has begun"
    if run.trial_state is not None and run.trial_state.terminal:
        return "the trial has ended"
    if run.task_state in _OVER or run.under_killed_task:
        return "the task was canceled"
    return "" if run.slots_free else "its slots are used by other work"


def _obstacle_of_gang(run: LostRun, container: ReturnedContainer) -> str:
    """Return why a run on several agents cannot continue. All of its containers must run or have ended successfully."""
    if run.heard_end:
        return "it had been told to end"
    if container.state is ContainerState.TERMINATED and container.exit_code != 0:
        return "its container failed"
    if not run.ready:
        return "its containers had not met"  # no training is lost if a new run starts
    return next(filter(None, (peer.obstacle for peer in run.peers)), "")
