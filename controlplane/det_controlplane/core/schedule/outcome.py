"""What a pass has decided so far, and the causes of waiting before they become sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .fleet import Fit, Fleet
from .model import Placement, Preempt, PreemptReason, Request, Running, Start

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
class NextOn:
    """The room is reserved; allocations on the agent are leaving."""

    agent: str


@dataclass(slots=True, eq=False)
class NextOnAll:
    """The same for a gang."""

    agents: list[str]


@dataclass(slots=True, eq=False)
class ShareUsed:
    offered: int
    held: int


Cause = Blocked | Behind | OverLimit | NextOn | NextOnAll | ShareUsed

# Requests, and why each of them waits (None: it starts).
Queued = tuple[Sequence[Request], list[Cause | None]]


@dataclass(slots=True)
class Outcome:
    start: list[Start] = field(default_factory=list)
    preempt: list[Preempt] = field(default_factory=list)
    queued: list[Queued] = field(default_factory=list)

    def ask(self, leaving: Sequence[Running], reason: PreemptReason) -> None:
        self.preempt += [_new(Preempt, (running.allocation_id, reason)) for running in leaving]

    def begin(self, request: Request, fleet: Fleet, fit: Fit, *, backfilled: bool = False) -> None:
        agents = fleet.agents
        if len(fit) == 1:
            ((agent, slots),) = fit
            seats: tuple[Placement, ...] = (_new(Placement, (agents[agent].id, slots)),)
        else:
            placed = [_new(Placement, (agents[agent].id, slots)) for agent, slots in fit]
            seats = tuple(sorted(placed, key=_largest_first))
        self.start.append(_new(Start, (request.allocation_id, seats, backfilled)))


def _largest_first(placement: Placement) -> tuple[int, str]:
    return (-placement.slots, placement.agent_id)
