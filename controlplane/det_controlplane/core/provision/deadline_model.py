"""Define experiments with a deadline as the provisioner sees them, and its decisions about them.

Times are seconds since the epoch.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from det_controlplane.core.placement.model import AnyCapacity

from .deadline_choice import Way


class DeadlineState(str, Enum):
    """The states of a deadline, from good to bad. Webhooks report a change to a worse one."""

    ON_TRACK = "ON_TRACK"
    LAST_CHANCE = (
        "LAST_CHANCE"  # machines on demand are used, because the slack cannot cover a loss
    )
    IN_DANGER = "IN_DANGER"
    MISSED = "MISSED"

    @property
    def badness(self) -> int:
        return list(DeadlineState).index(self)


@dataclass(frozen=True, slots=True)
class DeadlineRun:
    """An allocation of an experiment that has slots."""

    allocation_id: str
    machine_id: str  # the first rented machine that runs it; empty on other agents
    slots: int
    assigned_at: float
    is_training: bool  # its program has started
    can_move: bool  # it can save a checkpoint, and was not asked to leave
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class DeadlineJob:
    """A live experiment with a deadline, as measured."""

    job_id: str
    experiment_id: int
    deadline: float
    slots: int  # of each trial
    single_agent: bool
    progress: float  # from 0 to 1
    run_h: float  # of all runs of its trials together
    expected_h: float | None  # the user's estimate of the whole work
    unsaved_h: float  # the work since the last checkpoint, of the trial with the most
    startup_h: float  # from the rental of a machine to the first step
    queued: tuple[str, ...] = ()  # allocations
    runs: tuple[DeadlineRun, ...] = ()
    state: DeadlineState = DeadlineState.ON_TRACK  # of the last decision


@dataclass(frozen=True, slots=True)
class DeadlineDecision:
    """The machines that an experiment may use until the next decision, and why. `way` is None for any machine."""

    job_id: str
    experiment_id: int
    way: Way | None
    sentence: str
    next_at: float
    first_offer: str = ""
    state: DeadlineState = DeadlineState.ON_TRACK
    state_before: DeadlineState = DeadlineState.ON_TRACK
    end_at: float | None = None  # predicted
    probability: float | None = None  # of an end in time
    moving: tuple[DeadlineRun, ...] = ()  # runs that are to move to machines of this way
    is_urgent: bool = False  # the moves are needed for the deadline
    queued: tuple[str, ...] = ()
    machine_ids: tuple[str, ...] = ()  # that run it

    @property
    def is_news(self) -> bool:
        """Return whether the deadline is in a worse state than before."""
        return self.state.badness > self.state_before.badness

    @property
    def capacity(self) -> AnyCapacity:
        return _CAPACITIES[self.way]


_CAPACITIES: dict[Way | None, AnyCapacity] = {
    None: "",
    Way.WAIT: "none",
    Way.SPOT: "spot",
    Way.ON_DEMAND: "on-demand",
}


class Move(NamedTuple):
    """A run that is asked for a checkpoint, because a machine of the chosen way is ready for its next run."""

    allocation_id: str
    reason: str
