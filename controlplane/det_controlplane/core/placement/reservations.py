"""Reservations: agents that waiting requests get when the right running allocations have left.

A request reserves the agents with the smallest depth (see `future_slots`). Only the victims on these agents leave.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .fleet import Fleet
from .future_slots import NEVER, AgentsByDepth, Entry, FutureSlots
from .gangs import by_place, first_together, mix_sizes, prefix_with
from .model import Fit, SlotHolder, SlotRequest

Victim = TypeVar("Victim", bound=SlotHolder)


@dataclass(frozen=True, slots=True)
class Reservation(Generic[Victim]):
    """The agents that a request will get, and the allocations that have to be preempted for it."""

    fit: Fit
    victims: list[Victim]


class Reservations(Generic[Victim]):
    """Reserves units that are free now or after victims have left."""

    def __init__(
        self, fleet: Fleet, leaving: Iterable[SlotHolder], victims: Sequence[Victim]
    ) -> None:
        """Count on `leaving`, which leave in any case, and on `victims`, the first of which are preempted first.

        A victim that was preempted in an earlier pass keeps its position, so that this pass makes the same choices.
        """
        self._fleet = fleet
        self._victims = victims
        self._slots = FutureSlots(fleet, victims)
        self._slots.free_units_of(leaving)
        self._orders: dict[tuple[int, bool], AgentsByDepth] = {}
        sizes = {agent.slots for agent in fleet.agents if agent.is_open and agent.slots}
        self._sizes = sorted(sizes, reverse=True)

    def take(self, fit: Fit) -> None:
        """Count the units of a request that starts or waits as taken."""
        for agent, slots in fit:
            self._slots.free[agent] -= slots or 1

    def withhold(self, agents: Iterable[int]) -> None:
        """Make no reservations on these agents."""
        for agent in agents:
            self._slots.free[agent] -= self._slots.total[agent]

    def protect(self, job: tuple[object, ...]) -> None:
        """Preempt only allocations that are less important than a job. Allocations that leave anyway still count.

        Jobs come in queue order, so the set of less important allocations shrinks."""
        slots = self._slots
        while slots.max_depth and self._victims[slots.max_depth - 1].job <= job:
            if self._victims[slots.max_depth - 1].releasing:
                slots.release([slots.max_depth])
            slots.max_depth -= 1

    def reserve(self, request: SlotRequest) -> Reservation[Victim] | None:
        """Reserve agents for a request, or return None if all victims together hold too little.

        An elastic gang reserves its minimum, so that it preempts no more work than needed."""
        slots, units = self._slots, request.least_slots
        if slots.increased:
            self._search_increased_again()
        if (
            not request.blocked_agents and not request.capacity
        ):  # most requests fit at once: saves 1 ms for 10,000 of them
            agent = self._by_depth(units or 1).free_now()
            if agent is not None:
                slots.free[agent] -= units or 1
                return Reservation([(agent, units)], [])
        depth, fit = self._choose(request)
        if depth > slots.max_depth:
            return None
        victims = self._preempt_for(fit) if depth else []
        self.take(fit)
        return Reservation(fit, victims)

    def _preempt_for(self, fit: Fit) -> list[Victim]:
        """Mark the victims that hold the units of a fit. Return the victims that were not asked to stop before."""
        slots = self._slots
        depths: set[int] = set()
        for agent, count in fit:
            units = slots.total[agent] if len(fit) > 1 else count or 1  # a gang needs whole agents
            depths.update(slots.needed_victims(agent, units))
        slots.release(depths)
        victims = [self._victims[depth - 1] for depth in sorted(depths)]
        return [victim for victim in victims if not victim.releasing]

    def _search_increased_again(self) -> None:
        slots = self._slots
        for agent in slots.increased:
            # An agent without free units has none left, so the depths of others do not shrink.
            if slots.free[agent]:
                for order in self._orders.values():
                    order.search_again(agent)
        slots.increased.clear()

    def _choose(self, request: SlotRequest) -> tuple[int, Fit]:
        """Return the depth and the fit: one agent, or a gang if fewer victims have to leave for it."""
        blocked, units = self._fleet.blocked(request), request.least_slots
        agents = self._by_depth(units or 1).unblocked(blocked)
        depth, agent = next(agents, (NEVER, 0))
        fit = [(agent, units)] if depth < NEVER else []
        if depth and units > 1 and not request.single_agent:
            gang_depth, gang = self._choose_gang(units, blocked)
            if gang_depth < depth:
                return gang_depth, gang
        return depth, fit

    def _choose_gang(self, slots: int, blocked: Collection[int]) -> tuple[int, Fit]:
        """Return wholly free agents of one place: of one size, or of several if the pool allows it."""
        depth, fit = NEVER, Fit()
        for size in self._sizes:
            count, rest = divmod(slots, size)
            if rest or count < 2:
                continue
            entries = self._by_depth(size, whole=True).unblocked(blocked)
            gang = first_together(entries, count, self._place_of)
            if gang and gang[-1][0] < depth:
                depth, fit = gang[-1][0], [(agent, size) for _, agent in gang]
        if fit or not self._fleet.roster.mixes_sizes:
            return depth, fit
        return self._choose_mixed_gang(slots, blocked)

    def _choose_mixed_gang(self, slots: int, blocked: Collection[int]) -> tuple[int, Fit]:
        entries = sorted(
            entry
            for size in self._sizes
            for entry in self._by_depth(size, whole=True).unblocked(blocked)
        )
        gangs = (self._mix(group, slots) for group in by_place(entries, self._place_of))
        return min(gangs, key=lambda gang: gang[0], default=(NEVER, []))

    def _mix(self, entries: Sequence[Entry], slots: int) -> tuple[int, Fit]:
        """Return a gang of the first agents that together have so many slots, and the depth of the last one."""
        agents = [(agent, self._fleet.total[agent]) for _, agent in entries]
        count = prefix_with(slots, (size for _, size in agents))
        if not count:
            return NEVER, []
        agents = sorted(agents[:count], key=lambda part: (-part[1], part[0]))
        return entries[count - 1][0], mix_sizes(agents, slots) or []

    def _place_of(self, entry: Entry) -> str:
        return self._fleet.roster.places[entry[1]]

    def _by_depth(self, units: int, *, whole: bool = False) -> AgentsByDepth:
        if (units, whole) not in self._orders:
            self._orders[units, whole] = AgentsByDepth(self._slots, units, whole=whole)
        return self._orders[units, whole]
