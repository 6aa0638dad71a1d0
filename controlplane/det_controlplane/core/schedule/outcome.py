"""What a pass has decided so far, and the causes of waiting before they become sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .fleet import Fit, Fleet
from .model import Placement, Preempt, Request, Start

_new = tuple.__new__  # without a Python call for each of thousands

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

    agents: tuple[str, ...]


@dataclass(slots=True, eq=False)
class ShareUsed:
    offered: int
    held: int


Cause = Blocked | Behind | OverLimit | Victims | ShareUsed

# Requests, and why each of them waits (None: it starts).
Queued = tuple[Sequence[Request], list[Cause | None]]


@dataclass(slots=True)
class Outcome:
    start: list[Start] = field(default_factory=list)
    preempt: list[Preempt] = field(default_factory=list)
    queued: list[Queued] = field(default_factory=list)

    def begin(self, request: Request, fleet: Fleet, fit: Fit, *, backfilled: bool = False) -> None:
        agents = fleet.agents
        seats = [_new(Placement, (agents[agent].id, slots)) for agent, slots in fit]
        if len(seats) > 1:
            seats.sort(key=_largest_first)
        start = (request.allocation_id, tuple(seats), backfilled)
        self.start.append(_new(Start, start))


def _largest_first(placement: Placement) -> tuple[int, str]:
    return (-placement.slots, placement.agent_id)
