"""What a pass has decided so far, and why the others wait."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .fleet import Fit, Fleet
from .model import Placement, Preempt, PreemptReason, Request, Running, Start, Told

_new = tuple.__new__  # without a Python call for each of thousands

# What can only be put into words at the end of the pass. Compared by identity.


@dataclass(slots=True, eq=False)
class Blocked:
    """No room: `request` stands for all requests of its shape."""

    request: Request


@dataclass(slots=True, eq=False)
class OverLimit:
    """`request` stands for all requests of its job with as many slots."""

    request: Request


Unexplained = Blocked | OverLimit
Cause = Told | Unexplained

# Requests, and why each of them waits (None: it starts).
Queued = tuple[Sequence[Request], list[Cause | None]]


@dataclass(slots=True)
class Outcome:
    start: list[Start] = field(default_factory=list)
    preempt: list[Preempt] = field(default_factory=list)
    queued: list[Queued] = field(default_factory=list)
    unexplained: bool = False  # some of those wait for what is not in words yet

    def ask(self, leaving: Sequence[Running], reason: PreemptReason) -> None:
        self.preempt += [_new(Preempt, (running.allocation_id, reason)) for running in leaving]

    def begin(self, request: Request, fleet: Fleet, fit: Fit, *, backfilled: bool = False) -> None:
        agents = fleet.agents
        if len(fit) == 1:
            agent, slots = fit[0]
            seats: tuple[Placement, ...] = (_new(Placement, (agents[agent].id, slots)),)
        else:
            placed = [_new(Placement, (agents[agent].id, slots)) for agent, slots in fit]
            seats = tuple(sorted(placed, key=_largest_first))
        self.start.append(_new(Start, (request.allocation_id, seats, backfilled)))


def _largest_first(placement: Placement) -> tuple[int, str]:
    return (-placement.slots, placement.agent_id)
