"""What a pass has decided so far, and the causes of waiting before they become sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter

from .fleet import Fit, Fleet
from .model import Placement, Preempt, Request, Start

_allocation_id = attrgetter("allocation_id")

# Causes are compared by identity. Not frozen, which triples the cost of making one: there may be one for each job.


@dataclass(slots=True, eq=False)
class Blocked:
    """No room: `request` stands for all requests of its shape."""

    request: Request


@dataclass(slots=True, eq=False)
class Behind:
    """A request of a more important priority has to start first."""

    blocker: Request
    priority: int


@dataclass(slots=True, eq=False)
class OverLimit:
    job_id: str


@dataclass(slots=True, eq=False)
class Victims:
    """The room is reserved; allocations on these agents are leaving."""

    fleet: Fleet
    fit: Fit


@dataclass(slots=True, eq=False)
class ShareUsed:
    job_id: str
    offered: int


Cause = Blocked | Behind | OverLimit | Victims | ShareUsed


@dataclass(slots=True)
class Outcome:
    start: list[Start] = field(default_factory=list)
    preempt: list[Preempt] = field(default_factory=list)
    # Columns of one table, because ten thousand may wait: allocation, cause, place in the queue.
    waiting_ids: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def wait_all(
        self, requests: Sequence[Request], causes: Sequence[Cause | None], places: Sequence[int]
    ) -> None:
        """Those of the requests that have a cause."""
        self.waiting_ids += compress(map(_allocation_id, requests), causes)
        self.causes += filter(None, causes)
        self.places += compress(places, causes)

    def wait(self, request: Request, cause: Cause, place: int) -> None:
        self.waiting_ids.append(request.allocation_id)
        self.causes.append(cause)
        self.places.append(place)

    def begin(self, request: Request, fleet: Fleet, fit: Fit, *, backfilled: bool = False) -> None:
        agents = fleet.agents
        if len(fit) == 1:
            placements: tuple[Placement, ...] = (Placement(agents[fit[0][0]].id, fit[0][1]),)
        else:
            seats = [Placement(agents[agent].id, slots) for agent, slots in fit]
            placements = tuple(sorted(seats, key=_largest_first))
        self.start.append(Start(request.allocation_id, placements, backfilled))


def _largest_first(placement: Placement) -> tuple[int, str]:
    return (-placement.slots, placement.agent_id)
