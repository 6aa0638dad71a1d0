"""Agents kept for a request that has waited for too long (docs/concepts/scheduling.md#priority).

Small requests could pass a large one forever, because they fit wherever it does not fit yet. After a limit, nothing
behind the large request starts on the agents on which the fewest allocations have to end before it fits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from .fleet import SlotFleet
from .gangs import by_place
from .model import Placement, SlotRequest

MAX_PASSED_S = 300.0  # how long other requests may pass one that fits nowhere yet

Rank = tuple[
    int, int
]  # the number of allocations that have to end before the agent has enough free slots; the agent


class _Option(NamedTuple):
    """The agents on which a request could run, the best first, and the number of them that it needs."""

    needed: int
    ranks: Sequence[Rank]

    @property
    def cost(self) -> tuple[int, int]:
        """Return how many allocations have to end on the needed agents, and the number of these agents."""
        return sum(to_end for to_end, _ in self.ranks[: self.needed]), self.needed


def agents_to_keep(
    fleet: SlotFleet, request: SlotRequest, held: Iterable[Placement], waited_s: float
) -> list[int]:
    """Return the agents to keep for a request; none if it would not even fit on an empty fleet.

    `held` are the slots of running allocations. One more agent is kept each time the wait has doubled, because
    allocations on the first ones may run forever.
    """
    options = list(
        _options(_EndingAgents(fleet, request, held), request.slots, request.single_agent)
    )
    if not options:
        return []
    best = min(options, key=lambda option: option.cost)
    alternatives = int(waited_s // MAX_PASSED_S).bit_length()
    return [agent for _, agent in best.ranks[: best.needed + alternatives - 1]]


def _options(agents: "_EndingAgents", slots: int, single_agent: bool) -> Iterator[_Option]:
    """Yield one agent, gangs of one size, and gangs of several sizes if the pool mixes sizes."""
    single = agents.ranked((a for a in agents.usable if agents.total[a] >= slots), slots)
    if single:
        yield _Option(1, single)
    if single_agent:
        return
    whole = {size: agents.whole(size) for size in agents.sizes}
    for size, ranks in whole.items():
        count, rest = divmod(slots, size)
        for group in by_place(ranks, agents.place_of):
            if not rest and 1 < count <= len(group):
                yield _Option(count, group)
    if agents.mixes_sizes:
        for group in by_place(sorted(chain(*whole.values())), agents.place_of):
            count = agents.count_for(slots, group)
            if count:
                yield _Option(count, group)


class _EndingAgents:
    """The agents that a request may use, ranked by the allocations that have to end there."""

    def __init__(self, fleet: SlotFleet, request: SlotRequest, held: Iterable[Placement]) -> None:
        roster = fleet.roster
        self.total = fleet.total
        self.mixes_sizes = roster.mixes_sizes
        blocked = fleet.blocked(request)
        opened = [agent for agent, is_open in enumerate(roster.open) if is_open]
        self.usable = [agent for agent in opened if agent not in blocked]
        self.sizes = sorted({self.total[agent] for agent in opened} - {0}, reverse=True)
        self._places = roster.places
        self._free = fleet.free
        self._held: defaultdict[int, list[int]] = defaultdict(list)
        for agent_id, slots in held:
            if agent_id in roster.index:
                self._held[roster.index[agent_id]].append(slots)

    def place_of(self, rank: Rank) -> str:
        return self._places[rank[1]]

    def whole(self, size: int) -> list[Rank]:
        """Rank the agents of a size for requests that need all of their slots."""
        return self.ranked((a for a in self.usable if self.total[a] == size), size)

    def ranked(self, agents: Iterable[int], units: int) -> list[Rank]:
        """Return the agents that can have so many free slots, ordered by how many allocations have to end first."""
        ranks = ((self._to_end(agent, units), agent) for agent in agents)
        return sorted((count, agent) for count, agent in ranks if count is not None)

    def count_for(self, slots: int, whole: Sequence[Rank]) -> int:
        """Return how many of these agents, counted from the first, have so many slots; 0 if all together have less."""
        for count, (_, agent) in enumerate(whole, start=1):
            slots -= self.total[agent]
            if slots <= 0:
                return count
        return 0

    def _to_end(self, agent: int, units: int) -> int | None:
        free = self._free[agent]
        if free >= units:
            return 0
        for count, slots in enumerate(sorted(self._held[agent], reverse=True), start=1):
            free += slots
            if free >= units:
                return count
        return None
