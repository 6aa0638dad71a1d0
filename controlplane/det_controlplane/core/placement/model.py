"""Define agents, requests for slots and running allocations, as placement sees them."""

from typing import Any, Literal, NamedTuple, Protocol

from .links import Topology

FittingPolicy = Literal["best", "worst"]

# The machines that a request may use, by the way in which they are rented. Agents without a capacity are not rented.
AnyCapacity = Literal["", "spot", "on-demand", "none"]
NO_MACHINE: AnyCapacity = "none"  # the request waits, although machines may be free

# The agents chosen for a request, as indices into `Roster.agents`, each with the slots taken there.
Fit = list[tuple[int, int]]


class Agent(NamedTuple):
    """An agent of a pool. `slots` and `used` count enabled slots, `aux_*` containers without slots."""

    id: str
    slots: int
    used: int = 0
    aux_limit: int = 100
    aux_used: int = 0
    enabled: bool = True
    draining: bool = False
    out_of_service: str = ""  # the agent's own reason for taking no work
    place: str = ""  # cloud and region of a rented machine; a gang stays within one place
    zone: str = ""  # of a rented machine; a gang prefers one zone
    free_slots: tuple[int, ...] = ()  # the numbers of the enabled slots that are free
    topology: Topology | None = None  # the links between its slots, if they are known
    capacity: str = ""  # of a rented machine: spot or on-demand
    data_sets: tuple[tuple[str, int], ...] = ()  # the sources in its cache, with their bytes there
    moves_to: str = ""  # the pool that gets it after its work; it is draining until then

    @property
    def is_open(self) -> bool:
        """Return whether new work may be placed on the agent."""
        return self.enabled and not self.draining and not self.out_of_service


class Placement(NamedTuple):
    """The slots that an allocation holds on one agent; 0 for a container without slots."""

    agent_id: str
    slots: int


class SlotRequest(Protocol):
    """A request for slots: a queued allocation of the scheduler, or the provisioner's `Demand`."""

    @property
    def allocation_id(self) -> str: ...
    @property
    def slots(self) -> int: ...  # 0: a container without slots
    @property
    def least_slots(self) -> int: ...  # fewer than `slots` for an elastic gang
    @property
    def single_agent(self) -> bool: ...
    @property
    def strict_topology(self) -> bool: ...  # it waits for the best links that a machine can offer
    @property
    def blocked_agents(self) -> frozenset[str]: ...
    @property
    def capacity(self) -> AnyCapacity: ...  # empty: any machine
    @property
    def data_sets(self) -> tuple[str, ...]: ...  # agents that hold these sources are preferred


def may_use(request: SlotRequest, agent: Agent) -> bool:
    """Return whether a request may be placed on an agent, however full it is."""
    if request.capacity and agent.capacity and request.capacity != agent.capacity:
        return False
    return agent.id not in request.blocked_agents


class SlotHolder(Protocol):
    """A running allocation with the slots that it holds."""

    @property
    def job(self) -> tuple[Any, ...]: ...  # jobs compare in the order of the queue
    @property
    def slots(self) -> int: ...
    @property
    def placements(self) -> tuple[Placement, ...]: ...
    @property
    def releasing(self) -> bool: ...  # it was asked to leave
