"""A pass over a pool: the snapshot, the free slots, and the decisions so far."""

from collections.abc import Iterable
from operator import attrgetter

from det_controlplane.core.placement.fleet import AuxFleet, Roster, SlotFleet
from det_controlplane.core.placement.kept_agents import agents_to_keep
from det_controlplane.core.placement.model import NO_MACHINE, Agent, Fit, Placement
from det_controlplane.core.placement.tie_break import TieBreak

from .model import (
    PoolSettings,
    PoolSnapshot,
    Preempt,
    PreemptReason,
    Request,
    Running,
    SchedulePlan,
    Start,
)
from .queue_order import JobLimits, in_queue_order
from .reasons import Cause, Explainer, KeptAgents, NoRoom
from .wording import has_time


def roster_of(agents: Iterable[Agent], settings: PoolSettings) -> Roster:
    """Return the agents of a pool with the pool's rules of placement."""
    in_order = sorted(agents, key=attrgetter("id"))
    return Roster(
        in_order,
        TieBreak(in_order),
        fitting_policy=settings.fitting_policy,
        mixes_sizes=settings.allow_heterogeneous_fits,
    )


class PoolPass:
    def __init__(self, snapshot: PoolSnapshot) -> None:
        self.snapshot = snapshot
        # Requests that wait for a cheaper machine block no other request.
        startable = [one for one in snapshot.pending if one.capacity != NO_MACHINE]
        self.requests = in_queue_order(startable, snapshot.settings)
        self.running = list(snapshot.running)
        roster = roster_of(snapshot.agents, snapshot.settings)
        self.slots = SlotFleet(roster)
        self.aux = AuxFleet(roster)
        self.limits = JobLimits(snapshot)
        self.waiting: dict[str, Cause] = {  # by allocation
            one.allocation_id: has_time(one)
            for one in snapshot.pending
            if one.capacity == NO_MACHINE
        }
        self.kept: KeptAgents | None = None
        self.started: list[Start] = []
        self._preempted: list[Preempt] = []
        self._no_room: dict[object, NoRoom] = {}  # by shape

    def start(self, request: Request, *, backfilled: bool = False) -> Fit | None:
        """Start a request if it fits now, and return the agents it gets."""
        shape = request.shape
        if shape in self._no_room:  # permanently, because no slot becomes free during a pass
            return None
        fleet = self.slots if request.slots else self.aux
        fit = fleet.fit(self.limits.capped(request) if self.limits.limit else request)
        if fit is None:
            self._no_room[shape] = NoRoom(request)
            return None
        if self.limits.limit:
            self.limits.started(request, sum(slots for _, slots in fit))
        data_reason = fleet.holds(request, fit)
        if fleet is self.slots:
            numbers = self.slots.take_slots(fit)
        else:
            fleet.take(fit)
            numbers = ((),)
        placements = tuple([Placement(fleet.agents[agent].id, slots) for agent, slots in fit])
        start = Start(request.allocation_id, placements, backfilled, numbers, data_reason)
        self.started.append(start)
        return fit

    def keep(self, request: Request, now: float) -> list[int]:
        """Block requests behind this one on the agents where it needs the fewest allocations to end. Return these
        agents."""
        placements = [p for start in self.started for p in start.placements]
        placements += [p for running in self.running for p in running.placements]
        agents = agents_to_keep(self.slots, request, placements, now - request.requested_at)
        for agent in agents:
            self.slots.hold(agent)
        if agents:
            self.kept = KeptAgents(
                request, tuple([self.slots.agents[agent].id for agent in agents])
            )
            self.waiting[request.allocation_id] = self.kept
        return agents

    def no_room(self, request: Request) -> NoRoom:
        """Return why a request that did not fit waits; requests of one shape share the reason."""
        return self._no_room[request.shape]

    def preempt(self, leaving: Iterable[Running], reason: PreemptReason, for_job: str = "") -> None:
        self._preempted += [Preempt(running.allocation_id, reason, for_job) for running in leaving]

    def preempt_to_grow(self, running: Running, slots: int) -> None:
        """Ask an elastic gang for a checkpoint. Its next run gets more slots."""
        leaving = Preempt(running.allocation_id, PreemptReason.GROWTH, slots=slots)
        self._preempted.append(leaving)

    def plan(self, next_at: float | None = None) -> SchedulePlan:
        explain = Explainer(self.snapshot, self.slots, self.limits, self.kept).explain
        # Explain each cause once: thousands of allocations may share it.
        causes = {id(cause): cause for cause in self.waiting.values()}
        reasons = {key: explain(cause) for key, cause in causes.items()}
        waiting = {name: reasons[id(cause)] for name, cause in self.waiting.items()}
        return SchedulePlan(tuple(self.started), tuple(self._preempted), waiting, next_at)
