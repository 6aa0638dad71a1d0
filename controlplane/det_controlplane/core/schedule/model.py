"""Define the snapshot that a scheduling decision is based on, and the plan that it gives."""

from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Literal, NamedTuple

from det_controlplane.core.placement.model import Agent, AnyCapacity, FittingPolicy, Placement

SchedulerType = Literal["priority", "fair_share", "round_robin"]

NO_BLOCKED_AGENTS: frozenset[str] = frozenset()


class Job(NamedTuple):
    """An experiment or another task with live allocations.

    Jobs compare in the order of a priority queue: by priority, then position, then id.
    """

    priority: int
    position: Decimal | int  # microseconds of submission unless the job was moved
    id: str
    weight: float
    max_slots: int | None
    submitted_at: float


@dataclass(frozen=True, slots=True)
class Request:
    """An allocation that waits for its slots."""

    allocation_id: str
    job: Job
    slots: int
    requested_at: float
    single_agent: bool = False
    preemptible: bool = True
    blocked_agents: frozenset[str] = NO_BLOCKED_AGENTS
    strict_topology: bool = False
    min_slots: int | None = None  # of an elastic gang, which starts with fewer slots too
    capacity: AnyCapacity = ""  # the machines that the decision about its deadline allows
    data_sets: tuple[str, ...] = ()  # sources; they order agents, so they are no part of the shape

    @property
    def least_slots(self) -> int:
        return self.slots if self.min_slots is None else self.min_slots

    @property
    def shape(self) -> Hashable:
        """Return the shape of the request, which decides where it fits: requests of one shape fit or fail together."""
        is_elastic = self.min_slots is not None
        is_limited = self.blocked_agents or self.capacity
        if self.single_agent or is_limited or self.strict_topology or is_elastic:
            where = (self.single_agent, self.blocked_agents, self.strict_topology, self.capacity)
            return (self.slots, self.least_slots, *where)
        return self.slots  # nearly always, and found faster


@dataclass(frozen=True, slots=True)
class Growth:
    """The wish of an elastic gang for more slots than it holds."""

    max_slots: int
    started_at: float | None  # its containers have met, so it can save a checkpoint
    single_agent: bool = False
    blocked_agents: frozenset[str] = NO_BLOCKED_AGENTS
    strict_topology: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """An allocation that holds its slots, until its last container has exited."""

    allocation_id: str
    job: Job
    slots: int
    placements: tuple[Placement, ...]
    preemptible: bool
    releasing: bool  # it was preempted, paused or killed, and has not left yet
    requested_at: float
    growth: Growth | None = None  # of an elastic gang below its maximum


@dataclass(frozen=True, slots=True)
class PoolSettings:
    scheduler: SchedulerType = "priority"
    preemption: bool = False
    fitting_policy: FittingPolicy = "best"
    allow_heterogeneous_fits: bool = False


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """A resource pool at one moment. Ids are unique, and `running` is counted in the agents' `used`."""

    settings: PoolSettings
    agents: tuple[Agent, ...]
    pending: tuple[Request, ...]
    running: tuple[Running, ...]
    max_slots_per_launch: int | None = None  # slots of the largest machine the pool may add


class WaitCode(str, Enum):
    """The reasons for which an allocation has not started."""

    NO_AGENTS = "NO_AGENTS"
    TOO_LARGE = "TOO_LARGE"
    NO_FREE_SLOTS = "NO_FREE_SLOTS"
    NO_WHOLE_AGENTS = "NO_WHOLE_AGENTS"
    TOPOLOGY = "TOPOLOGY"
    AUX_LIMIT = "AUX_LIMIT"
    AGENT_DRAINING = "AGENT_DRAINING"
    AGENT_OUT_OF_SERVICE = "AGENT_OUT_OF_SERVICE"
    BLOCKED_NODES = "BLOCKED_NODES"
    MAX_SLOTS = "MAX_SLOTS"
    BEHIND_HIGHER_PRIORITY = "BEHIND_HIGHER_PRIORITY"
    WAITING_FOR_PREEMPTION = "WAITING_FOR_PREEMPTION"
    FAIR_SHARE = "FAIR_SHARE"
    DEADLINE = "DEADLINE"  # its deadline leaves time to wait for a cheaper machine
    BACKING_OFF = "BACKING_OFF"  # it failed before it was ready, and is tried again later


class WaitReason(NamedTuple):
    """The reason why an allocation waits: a code, and a sentence with the numbers of the moment."""

    code: WaitCode
    sentence: str


class PreemptReason(Enum):
    """The reasons for which a running allocation has to leave."""

    HIGHER_PRIORITY = "HIGHER_PRIORITY"
    MAX_SLOTS = "MAX_SLOTS"
    FAIR_SHARE = "FAIR_SHARE"
    GROWTH = "GROWTH"


class Start(NamedTuple):
    """An allocation that starts; rank 0 runs on the first placement, the one with the most slots."""

    allocation_id: str
    placements: tuple[Placement, ...]
    backfilled: bool
    slot_ids: tuple[tuple[int, ...], ...] = ()  # the numbers of the slots of each placement
    data_reason: str = ""  # the agents that already hold its data sets


class Preempt(NamedTuple):
    """A running allocation that is asked to leave."""

    allocation_id: str
    reason: PreemptReason
    for_job: str = ""  # the job that gets its slots, if only one does
    slots: int = 0  # for growth: the slots that its next run can have


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """List allocations to start and to preempt, and the reason of each other pending one, by its id."""

    start: tuple[Start, ...]
    preempt: tuple[Preempt, ...]
    waiting: dict[str, WaitReason]
    next_at: float | None = None  # time of the next decision without further changes
