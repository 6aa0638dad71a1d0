"""The free slots of a pool's agents by number, and the choice of the slots that a request gets on an agent."""

from collections.abc import Sequence

from .links import ALONE, NVLINK, Score, Slots, best_slots
from .model import Agent


class FreeSlots:
    """The free slots of agents by number. Agents without known numbers or links have no preference."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self._free = [agent.free_slots for agent in agents]
        self._topologies = [agent.topology for agent in agents]
        self.any_links = any(topology is not None for topology in self._topologies)

    def score(self, agent: int, count: int) -> Score:
        """Return the score of the best free set of an agent."""
        topology = self._topologies[agent]
        if topology is None or count < 2 or count > len(self._free[agent]):
            return ALONE
        return best_slots(topology, self._free[agent], count)[0]

    def best_class(self, agent: int, count: int) -> int:
        """Return the class of the best set of an agent if all of its slots were free."""
        topology = self._topologies[agent]
        if topology is None or not 1 < count <= len(topology.slots):
            return NVLINK
        return best_slots(topology, topology.slots, count)[0].weakest_class

    def take(self, agent: int, count: int) -> Slots:
        """Return the best free slots of an agent, which are not free any more."""
        free, topology = self._free[agent], self._topologies[agent]
        if topology is None or count >= len(free):
            slots = free[:count]
        else:
            slots = best_slots(topology, free, count)[1]
        self._free[agent] = tuple(slot for slot in free if slot not in slots)
        return slots
