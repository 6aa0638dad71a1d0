"""What a scheduling decision looks at and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Literal, NamedTuple

SchedulerType = Literal["priority", "fair_share", "round_robin"]
FittingPolicy = Literal["best", "worst"]

DEFAULT_PRIORITY = 42
NO_BLOCKED_AGENTS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Agent:
    """`slots` and `used` count enabled slots; `aux_*` count containers without slots."""

    id: str
    slots: int
    used: int = 0
    aux_limit: int = 100
    aux_used: int = 0
    enabled: bool = True
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """An allocation that waits for its slots."""

    allocation_id: str
    job_id: str
    slots: int
    requested_at: float
    single_agent: bool = False
    preemptible: bool = True
    blocked_agents: frozenset[str] = NO_BLOCKED_AGENTS


class Placement(NamedTuple):
    agent_id: str
    slots: int


@dataclass(frozen=True, slots=True)
class Running:
    """An allocation that holds its slots, until its last container has exited."""

    allocation_id: str
    job_id: str
    slots: int
    placements: tuple[Placement, ...]
    preemptible: bool
    releasing: bool  # it was asked to leave: preempted, paused or killed
    requested_at: float


@dataclass(frozen=True, slots=True)
class Job:
    """Who asks: an experiment or another task with live allocations."""

    id: str
    priority: int | None
    weight: float
    position: Decimal | int  # microseconds of submission unless the job was moved
    max_slots: int | None
    submitted_at: float


@dataclass(frozen=True, slots=True)
class PoolSettings:
    scheduler: SchedulerType = "priority"
    preemption: bool = False
    default_priority: int = DEFAULT_PRIORITY
    fitting_policy: FittingPolicy = "best"
    allow_heterogeneous_fits: bool = False


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """A resource pool at one moment.

    Ids are unique. What runs is part of the agents' `used`. `jobs` are those of all that is pending or running.
    """

    settings: PoolSettings
    agents: tuple[Agent, ...]
    pending: tuple[Request, ...]
    running: tuple[Running, ...]
    jobs: tuple[Job, ...]
    max_slots_per_launch: int | None = None  # slots of the largest machine the pool may add


class WaitCode(Enum):
    """Why an allocation has not started."""

    NO_AGENTS = "NO_AGENTS"
    TOO_LARGE = "TOO_LARGE"
    NO_FREE_SLOTS = "NO_FREE_SLOTS"
    NO_WHOLE_AGENTS = "NO_WHOLE_AGENTS"
    AUX_LIMIT = "AUX_LIMIT"
    AGENT_DRAINING = "AGENT_DRAINING"
    BLOCKED_NODES = "BLOCKED_NODES"
    MAX_SLOTS = "MAX_SLOTS"
    BEHIND_HIGHER_PRIORITY = "BEHIND_HIGHER_PRIORITY"
    WAITING_FOR_PREEMPTION = "WAITING_FOR_PREEMPTION"
    FAIR_SHARE = "FAIR_SHARE"


class PreemptReason(Enum):
    """Why a running allocation has to leave."""

    HIGHER_PRIORITY = "HIGHER_PRIORITY"
    MAX_SLOTS = "MAX_SLOTS"
    FAIR_SHARE = "FAIR_SHARE"


class Told(NamedTuple):
    code: WaitCode
    sentence: str


class Reason:
    """Shared by all allocations that wait for the same thing; put into words when somebody reads it."""

    __slots__ = ("_tell", "_told")

    def __init__(self, tell: Callable[[], Told]) -> None:
        self._tell = tell
        self._told: Told | None = None

    @property
    def told(self) -> Told:
        if self._told is None:
            self._told = self._tell()
        return self._told

    @property
    def code(self) -> WaitCode:
        return self.told.code

    @property
    def sentence(self) -> str:
        return self.told.sentence

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and self.told == other.told

    def __hash__(self) -> int:
        return hash(self.told)

    def __repr__(self) -> str:
        return f"Reason({self.code.value}: {self.sentence})"


# Tuples from here on, because a pass makes thousands of them.
class Start(NamedTuple):
    """Rank 0 runs on the first placement, the one with the most slots."""

    allocation_id: str
    placements: tuple[Placement, ...]
    backfilled: bool


class Preempt(NamedTuple):
    allocation_id: str
    reason: PreemptReason


class Waiting(NamedTuple):
    allocation_id: str
    reason: Reason
    jobs_ahead: int  # -1 where the scheduler keeps no order

    @property
    def sentence(self) -> str:
        """The reason with the place in the queue; put together only when somebody asks."""
        if self.jobs_ahead < 1:
            return self.reason.sentence
        noun = "job is" if self.jobs_ahead == 1 else "jobs are"
        return f"{self.reason.sentence}; {self.jobs_ahead} {noun} ahead"


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    start: tuple[Start, ...]
    preempt: tuple[Preempt, ...]
    waiting: tuple[Waiting, ...]
    jobs_ahead: Mapping[str, int]
