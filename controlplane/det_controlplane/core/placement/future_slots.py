"""The free units of each agent now, and after running allocations ("victims") have left.

Victims leave in one fixed order, the least important first. The *depth* of an agent for a number of units is the number
of victims in that order that have to leave before the agent has the units; 0 if it has them already.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from .fleet import Fleet
from .model import Fit, SlotHolder

NEVER = 1 << 60  # the depth of an agent that has too few units even without victims

Entry = tuple[int, int]  # depth, agent


class FutureSlots:
    """Counts free units while victims leave and requests reserve units."""

    def __init__(self, fleet: Fleet, victims: Sequence[SlotHolder]) -> None:
        self.free = list(fleet.free)
        self.total = fleet.total
        self.max_depth = len(victims)  # deeper victims are not preempted for the current request
        self.increased: set[int] = set()  # agents with more free units, so depths may be smaller
        self.released: set[int] = set()  # depths of victims that already count as gone
        self._victims = victims
        # A closed agent gets no new work, so its units do not count as freed.
        self._open = {id: at for id, at in fleet.roster.index.items() if fleet.roster.open[at]}
        self._freed_on: list[list[tuple[int, int]]] = [[] for _ in self.free]  # depth, units
        self.agents_of: list[list[int]] = [[]]  # the agents of each victim, by its depth
        for depth, victim in enumerate(victims, start=1):
            parts = self._parts(victim)
            for agent, units in parts:
                self._freed_on[agent].append((depth, units))
            self.agents_of.append([agent for agent, _ in parts])

    def _parts(self, holder: SlotHolder) -> Fit:
        """Return the units that an allocation frees on each agent."""
        parts = []
        for agent_id, slots in holder.placements:
            units = slots if holder.slots else 1
            if units and agent_id in self._open:
                parts.append((self._open[agent_id], units))
        return sorted(parts) if len(parts) > 1 else parts

    def free_units_of(self, leaving: Iterable[SlotHolder]) -> None:
        """Count the units of these allocations as free."""
        for holder in leaving:
            for agent, units in self._parts(holder):
                # Slots that were disabled under an allocation do not become free.
                self.free[agent] = min(self.free[agent] + units, self.total[agent])
                self.increased.add(agent)

    def release(self, depths: Iterable[int]) -> None:
        """Count the units of these victims as free."""
        staying = [depth for depth in depths if depth not in self.released]
        self.released.update(staying)
        self.free_units_of([self._victims[depth - 1] for depth in staying])

    def first_depth_on(self, agent: int) -> int:
        """Return the depth of the first victim on an agent."""
        return self._freed_on[agent][0][0] if self._freed_on[agent] else NEVER

    def depth(self, agent: int, units: int) -> int:
        """Return how many victims have to leave before the agent has so many free units."""
        free = self.free[agent]
        if free >= units:
            return 0
        for depth, freed_units in self._freed_on[agent]:
            if depth not in self.released:
                free += freed_units
                if free >= units:
                    return depth
        return NEVER

    def needed_victims(self, agent: int, units: int) -> list[int]:
        """Return the depths of the victims that free the units, without victims that may stay."""
        short = units - self.free[agent]
        victims = []
        for depth, freed_units in self._freed_on[agent]:
            if short > 0 and depth not in self.released:
                victims.append((depth, freed_units))
                short -= freed_units
        depths = []
        for depth, freed_units in reversed(victims):
            # The victim may stay if more is freed than is short. One that leaves anyway is counted on.
            if short + freed_units <= 0 and not self._victims[depth - 1].releasing:
                short += freed_units
            else:
                depths.append(depth)
        return depths


class AgentsByDepth:
    """Agents for a number of units, ordered by depth; if `whole`, only agents with exactly so many slots.

    A search continues where the last one found its first agent. Agents before that have fewer free units since then,
    except those reported by `search_again`.
    """

    def __init__(self, slots: FutureSlots, units: int, *, whole: bool) -> None:
        self._slots = slots
        self._units = units
        self._whole = whole
        self._first_agent = 0  # no agent before it has the units now
        self._first_depth = 1  # no victim before it frees the units
        if units > max(slots.total, default=0):
            self._first_depth = NEVER

    def search_again(self, agent: int) -> None:
        """Search an agent again, because it has more free units."""
        self._first_agent = min(self._first_agent, agent)
        self._first_depth = min(self._first_depth, self._slots.first_depth_on(agent))

    def free_now(self) -> int | None:
        """Return the first agent that has the units now, of any size."""
        free, units = self._slots.free, self._units
        for agent in range(self._first_agent, len(free)):
            if free[agent] >= units:
                self._first_agent = agent
                return agent
        self._first_agent = len(free)
        return None

    def unblocked(self, blocked: Collection[int]) -> Iterator[Entry]:
        """Yield the agents that are not blocked, the smallest depth first."""
        return (entry for entry in self if entry[1] not in blocked) if blocked else iter(self)

    def __iter__(self) -> Iterator[Entry]:
        slots, units, total, any_size = self._slots, self._units, self._slots.total, not self._whole
        has_agent = False
        for agent in range(self._first_agent, len(slots.free)):
            if slots.free[agent] >= units and (any_size or total[agent] == units):
                if not has_agent:
                    self._first_agent, has_agent = agent, True
                yield 0, agent
        if not has_agent:
            self._first_agent = len(slots.free)
        for depth in range(self._first_depth, slots.max_depth + 1):
            for agent in slots.agents_of[depth] if depth not in slots.released else ():
                if slots.depth(agent, units) == depth and (any_size or total[agent] == units):
                    if not has_agent:
                        self._first_depth, has_agent = depth, True
                    yield depth, agent
        if not has_agent:
            self._first_depth = slots.max_depth + 1
