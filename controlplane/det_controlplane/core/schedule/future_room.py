"""Count what is free on each agent, now and after victims have left."""

from collections.abc import Iterable, Sequence

from .fleet import Fit, Fleet
from .model import Running

NEVER = 1 << 60  # the depth of agents that have too little room even without victims


class FutureRoom:
    def __init__(self, fleet: Fleet, victims: Sequence[Running]) -> None:
        self.free = list(fleet.free)
        self.total = fleet.total
        self.limit = len(victims)  # deeper victims are not preempted for the request at hand
        self.gained: set[int] = set()  # agents whose depths may have become smaller
        self._victims = victims
        self.gone: set[int] = set()  # depths of victims that are counted as free already
        # Agents that are closed give nothing to others.
        self._open = {id: index for id, index in fleet.index.items() if fleet.open[index]}
        # By agent: the depth of each victim there and the units that it gives back.
        self._holdings: list[list[tuple[int, int]]] = [[] for _ in self.free]
        self.agents_of: list[list[int]] = [[]]  # by the depth of the victim on them
        for depth, running in enumerate(victims, start=1):
            parts = self._parts(running)
            for agent, units in parts:
                self._holdings[agent].append((depth, units))
            self.agents_of.append([agent for agent, _ in parts])

    def _parts(self, running: Running) -> Fit:
        """Return the room that an allocation gives back on each agent; closed agents give none to others."""
        parts = []
        for agent_id, slots in running.placements:
            units = slots if running.slots else 1
            if units and agent_id in self._open:
                parts.append((self._open[agent_id], units))
        return sorted(parts) if len(parts) > 1 else parts

    def give_back(self, leaving: Iterable[Running]) -> None:
        for running in leaving:
            for agent, units in self._parts(running):
                # Slots that were disabled under an allocation come back to nobody.
                self.free[agent] = min(self.free[agent] + units, self.total[agent])
                self.gained.add(agent)

    def first_depth_on(self, agent: int) -> int:
        return self._holdings[agent][0][0] if self._holdings[agent] else NEVER

    def leave(self, depths: Iterable[int]) -> None:
        """Count what these victims hold as free."""
        staying = [depth for depth in depths if depth not in self.gone]
        self.gone.update(staying)
        self.give_back([self._victims[depth - 1] for depth in staying])

    def depth(self, agent: int, units: int) -> int:
        """Return how many victims have to leave before the agent has the room."""
        room = self.free[agent]
        if room >= units:
            return 0
        for depth, freed in self._holdings[agent]:
            if depth not in self.gone:
                room += freed
                if room >= units:
                    return depth
        return NEVER

    def leave_for(self, fit: Fit) -> list[Running]:
        """Make room on these agents; return the victims that are to be preempted for it."""
        depths: set[int] = set()
        for agent, slots in fit:
            # A gang over agents shares them with nothing.
            units = self.total[agent] if len(fit) > 1 else slots or 1
            depths.update(self._needed(agent, units))
        self.leave(depths)
        victims = [self._victims[depth - 1] for depth in sorted(depths)]
        return [victim for victim in victims if not victim.releasing]

    def _needed(self, agent: int, units: int) -> list[int]:
        """Return the victims that make the room, without those that the room does not depend on."""
        short = units - self.free[agent]
        reached = []
        for depth, freed in self._holdings[agent]:
            if short > 0 and depth not in self.gone:
                reached.append((depth, freed))
                short -= freed
        needed = []
        for depth, freed in reversed(reached):
            # More would be freed than is short; but what leaves anyhow is counted on.
            if short + freed <= 0 and not self._victims[depth - 1].releasing:
                short += freed
            else:
                needed.append(depth)
        return needed
