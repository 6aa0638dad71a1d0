"""Define the snapshot that a provisioning decision is based on, and the plan that it gives.

Times are seconds since the epoch, money is US dollars.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.placement.links import Topology
from det_controlplane.core.placement.model import AnyCapacity, FittingPolicy
from det_controlplane.core.provision.deadline_model import DeadlineDecision, DeadlineJob, Move
from det_controlplane.core.provision.offers import Offer, Scope
from det_controlplane.core.provision.spot_history import SpotSpell
from det_controlplane.core.provision.warm import WarmChoice, WarmHistory, WarmLedger, WarmPolicy


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold the limits that the operator of a pool sets."""

    min_instances: int = 0
    max_instances: int = 5
    warm_instances: int = 0  # idle machines that are kept beside the working ones
    warm_policy: WarmPolicy | None = None  # then the provisioner chooses `warm_instances`
    max_idle_s: float = 1200.0
    max_starting_s: float = 1200.0
    max_hourly_cost: Decimal | None = None  # of all machines of the pool together
    max_aux_containers: int = 100
    # The fitting policy of the pool's scheduler, so that it will use the rented machines.
    allow_heterogeneous_fits: bool = False
    fitting_policy: FittingPolicy = "best"
    preemption: bool = False  # lower priorities may start while a higher one waits


LEAST_URGENT = 1 << 30  # the priority of growth, which blocks no other demand


@dataclass(frozen=True, slots=True)
class Demand:
    """An allocation in the pool's queue that waits for slots, and not for preempted allocations."""

    allocation_id: str
    job_id: str
    slots: int  # 0: a container without slots
    requested_at: float
    single_agent: bool = False
    job_max_slots: int | None = None
    job_held_slots: int = 0  # slots of the job's running allocations
    priority: int = 0  # less is more urgent; equal where the pool's scheduler knows no priorities
    blocked_agents: frozenset[str] = frozenset()  # ids of machines on which it failed before
    strict_topology: bool = False
    min_slots: int | None = None  # of an elastic gang, which starts with fewer slots too
    capacity: AnyCapacity = ""  # the machines that the decision about its deadline allows
    first_offer: str = ""  # rented before others if it is cheap enough
    data_sets: tuple[str, ...] = ()  # always empty: a new machine holds none

    @property
    def least_slots(self) -> int:
        return self.slots if self.min_slots is None else self.min_slots


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that the cluster rents, or is about to."""

    id: str
    pool: str
    offer: Offer  # as it was launched
    state: MachineState
    requested_at: float
    launched_at: float | None = None
    registered_at: float | None = None
    used_slots: int = 0
    aux_used: int = 0  # containers without slots
    takes_work: bool = False  # its agent is there, enabled and in service
    disconnected_since: float | None = None  # its agent joined once, and is silent since
    idle_since: float | None = None
    unsent_at: float | None = None  # when its agent said last that log lines wait there
    leaving_since: float | None = None  # its agent announced that the machine goes away
    is_broken: bool = False  # its agent reports that it cannot start containers
    stopped: bool = False  # the cloud says that it does not run
    purpose: str = ""  # the allocation that it was rented for
    trouble: str = ""  # why its cloud has not answered yet
    placement: str = ""  # of a machine of a gang: its placement group, or why it has none
    slow_at: tuple[float, ...] = ()  # when trials reported slow ranks on it
    free_slots: tuple[int, ...] = ()  # the numbers of its free slots, once its agent has joined
    topology: Topology | None = None


class RefusalKind(str, Enum):
    """The kinds of reasons for which a cloud gave no machine."""

    NO_CAPACITY = "NO_CAPACITY"
    QUOTA = "QUOTA"
    DENIED = "DENIED"
    INVALID = "INVALID"
    RETRYABLE = "RETRYABLE"


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Offers that were refused, and are not asked for until a time."""

    scope: Scope
    kind: RefusalKind
    until: float
    sentence: str  # the cloud's message and the fix
    failures: int = 1
    pool: str = ""  # the pool with the refused section; empty for all pools
    hint: tuple[str, ...] = ()  # zones that have room, as the cloud says


@dataclass(frozen=True, slots=True)
class Hold:
    """A cause why a pool launches no machines: an operator's hold, a spent budget, or repeated refusals of a cloud."""

    sentence: str
    until: float | None = None
    of_budget: bool = False  # then no idle machine is kept either, and the sentence names the fix


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """A pool with machines of its own. Demand is in the order of the queue."""

    name: str
    limits: Limits
    offers: tuple[Offer, ...]  # in the operator's order of preference
    demand: tuple[Demand, ...]
    machines: tuple[Machine, ...]
    holds: tuple[Hold, ...] = ()
    growth: tuple[Demand, ...] = ()  # slots that running elastic gangs lack
    deadline_jobs: tuple[DeadlineJob, ...] = ()
    warm: WarmHistory | None = None  # of a pool with a `warm_policy`


@dataclass(frozen=True, slots=True)
class ProvisionSnapshot:
    """All pools of the cluster at one moment, and the known state of the clouds."""

    pools: tuple[PoolSnapshot, ...]
    cooldowns: tuple[Cooldown, ...] = ()
    interruptions: tuple[
        tuple[Scope, float], ...
    ] = ()  # reclaims of the last days, with their time
    spot_spells: Mapping[Scope, SpotSpell] = field(default_factory=dict)
    # When the prices of each provider's region are read again.
    prices_due: Mapping[tuple[str, str], float] = field(default_factory=dict)
    # Machines of pools that the configuration has no more, or that rent no more.
    left_over: tuple[Machine, ...] = ()


class Launch(NamedTuple):
    """A machine to rent from one of some offers of one provider, region and capacity, the best first."""

    pool: str
    offers: tuple[Offer, ...]
    purpose: str  # the allocation that it is for; empty for a minimum or a warm machine


class DrainReason(str, Enum):
    RECLAIMED = "RECLAIMED"
    BROKEN = "BROKEN"
    SLOW = "SLOW"
    OVER_MAXIMUM = "OVER_MAXIMUM"
    BUDGET = "BUDGET"
    LEFT_OVER = "LEFT_OVER"


class TerminateReason(str, Enum):
    IDLE = "IDLE"
    OVER_MAXIMUM = "OVER_MAXIMUM"
    BUDGET = "BUDGET"
    NEVER_REGISTERED = "NEVER_REGISTERED"
    DISCONNECTED = "DISCONNECTED"
    OUT_OF_SERVICE = "OUT_OF_SERVICE"
    STOPPED = "STOPPED"
    DRAINED = "DRAINED"
    NOT_NEEDED = "NOT_NEEDED"  # asked for, and no longer wanted before it came
    NOT_WARM = "NOT_WARM"  # kept for work that has not come, and no longer wanted
    LEFT_OVER = "LEFT_OVER"


class Drain(NamedTuple):
    machine_id: str
    reason: DrainReason


class Terminate(NamedTuple):
    machine_id: str
    reason: TerminateReason


class ProvisionCode(str, Enum):
    """Name the reason why an allocation has no machine yet."""

    MACHINE_STARTING = "MACHINE_STARTING"
    BEHIND_HIGHER_PRIORITY = "BEHIND_HIGHER_PRIORITY"
    LAUNCHING = "LAUNCHING"
    NO_OFFER_FITS = "NO_OFFER_FITS"
    PRICE_CAP = "PRICE_CAP"
    MAX_INSTANCES = "MAX_INSTANCES"
    MAX_HOURLY_COST = "MAX_HOURLY_COST"
    COOLING_DOWN = "COOLING_DOWN"
    POOL_HELD = "POOL_HELD"
    DEADLINE = "DEADLINE"  # its deadline leaves time to wait for a cheaper machine


class ProvisionReason(NamedTuple):
    """The reason why an allocation waits for a machine: a code, and a sentence with offers, numbers and times."""

    code: ProvisionCode
    sentence: str
    next_try: float | None = None


class WarmDecision(NamedTuple):
    """The warm machines of a pool that chooses their number, and their cost until now and from now on."""

    pool: str
    choice: WarmChoice
    ledger: WarmLedger


@dataclass(frozen=True, slots=True)
class ProvisionPlan:
    """The machines to rent, drain and terminate, and the reason of each waiting allocation by its id."""

    launch: tuple[Launch, ...]
    drain: tuple[Drain, ...]
    terminate: tuple[Terminate, ...]
    waiting: dict[str, ProvisionReason]
    next_at: float | None  # time of the next decision without further changes
    deadlines: tuple[DeadlineDecision, ...] = ()
    moves: tuple[Move, ...] = ()
    warm: tuple[WarmDecision, ...] = ()
