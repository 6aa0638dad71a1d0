"""Reserve what the fleet can offer once the right running allocations have left.

Victims leave in one fixed order, the least important first. So for every agent and number of units there is a *depth*:
how many victims in that order have to leave before the agent has the room; 0 where it has the room already. The
smallest depth is the choice, and only the victims on the chosen agents are preempted.
"""

from collections.abc import Collection, Iterable, Sequence

from .agents_by_depth import AgentsByDepth, Entry
from .fleet import Fit, Fleet, greedy_mix
from .future_room import NEVER, FutureRoom
from .model import Job, Request, Running
from .places import by_place, first_together


class Reservations:
    """Room after victims have left, less what waiting requests have reserved."""

    def __init__(
        self, fleet: Fleet, leaving: Iterable[Running], victims: Sequence[Running]
    ) -> None:
        """Take `leaving`, which go whatever happens, and `victims`, which may be preempted, the first of them first.

        A victim that was preempted in an earlier pass keeps its place, so that this pass makes the same choices.
        """
        self._fleet = fleet
        self._victims = victims
        self._room = FutureRoom(fleet, victims)
        self._room.give_back(leaving)
        self._orders: dict[tuple[int, bool], AgentsByDepth] = {}
        self._sizes = sorted(
            {agent.slots for agent in fleet.agents if agent.is_open and agent.slots}, reverse=True
        )

    def take(self, fit: Fit) -> None:
        """Count what a request that starts or waits has taken."""
        for agent, slots in fit:
            self._room.free[agent] -= slots or 1

    def withhold(self, agents: Iterable[int]) -> None:
        """Reserve nothing on these agents."""
        for agent in agents:
            self._room.free[agent] -= self._room.total[agent]

    def reserve(self, request: Request) -> tuple[Fit, list[Running]] | None:
        """Return agents and victims for a request; None if the victims hold too little."""
        if self._room.gained:
            self._reconsider()
        if not request.blocked_agents:  # most find room at once: 1 ms less for 10,000 queued
            at_once = self._by_depth(request.slots or 1).with_room()
            if at_once is not None:
                self._room.free[at_once] -= request.slots or 1
                return [(at_once, request.slots)], []
        depth, fit = self._choose(request)
        if depth > self._room.limit:
            return None
        victims = self._room.leave_for(fit) if depth else []
        self.take(fit)
        return fit, victims

    def protect(self, job: Job) -> None:
        """Keep allocations that are at least as important as a job; the room of those that leave anyhow is counted on.

        Jobs come in queue order, so fewer and fewer allocations are less important.
        """
        room = self._room
        while room.limit and self._victims[room.limit - 1].job <= job:
            if self._victims[room.limit - 1].releasing:
                room.leave([room.limit])
            room.limit -= 1

    def _reconsider(self) -> None:
        room = self._room
        for agent in room.gained:
            # Where nothing is free any more the gain is used up, and no depth became smaller.
            if room.free[agent]:
                for order in self._orders.values():
                    order.gained(agent)
        room.gained.clear()

    def _choose(self, request: Request) -> tuple[int, Fit]:
        """Return one agent with its depth, unless a gang has to wait for fewer to leave."""
        blocked = self._fleet.blocked(request) if request.blocked_agents else frozenset[int]()
        agents = self._by_depth(request.slots or 1)
        entry = next(iter(agents.first_of(1, blocked) if blocked else agents), None)
        depth, fit = (NEVER, []) if entry is None else (entry[0], [(entry[1], request.slots)])
        if depth and request.slots > 1 and not request.single_agent:
            gang_depth, gang = self._choose_gang(request.slots, blocked)
            if gang_depth < depth:
                return gang_depth, gang
        return depth, fit

    def _choose_gang(self, slots: int, blocked: Collection[int]) -> tuple[int, Fit]:
        """Return wholly free agents of one place: of one size, or of several where the pool allows it."""
        chosen: tuple[int, Fit] = (NEVER, [])
        for size in self._sizes:
            count, rest = divmod(slots, size)
            if rest or count < 2:
                continue
            entries = self._by_depth(size, whole=True).unblocked(blocked)
            found = first_together(entries, count, self._place_of)
            if found and found[-1][0] < chosen[0]:
                chosen = (found[-1][0], [(agent, size) for _, agent in found])
        if chosen[1] or not self._fleet.mixes_sizes:
            return chosen
        return self._choose_mixed_gang(slots, blocked)

    def _choose_mixed_gang(self, slots: int, blocked: Collection[int]) -> tuple[int, Fit]:
        every, total = len(self._fleet.agents), self._fleet.total
        found = sorted(
            entry
            for size in self._sizes
            for entry in self._by_depth(size, whole=True).first_of(every, blocked)
        )
        choices = (_mix(whole, slots, total) for whole in by_place(found, self._place_of))
        return min(choices, key=lambda choice: choice[0], default=(NEVER, []))

    def _place_of(self, entry: Entry) -> str:
        return self._fleet.places[entry[1]]

    def _by_depth(self, units: int, *, whole: bool = False) -> AgentsByDepth:
        if (units, whole) not in self._orders:
            self._orders[units, whole] = AgentsByDepth(self._room, units, whole=whole)
        return self._orders[units, whole]


def _mix(found: Sequence[Entry], slots: int, total: Sequence[int]) -> tuple[int, Fit]:
    """Return the first of these agents that together have so many slots, and the depth of the last."""
    room = 0
    for at, (depth, agent) in enumerate(found):
        room += total[agent]
        if room >= slots:
            agents = [(agent, total[agent]) for _, agent in found[: at + 1]]
            agents.sort(key=lambda choice: (-choice[1], choice[0]))
            return depth, greedy_mix(agents, slots) or []
    return NEVER, []
