"""Agents kept for a request that has waited for too long (docs/concepts/scheduling.md#priority).

Small requests could pass a large one forever, because they fit wherever it does not fit yet. After a limit, nothing
behind the large request starts on the agents on which the fewest allocations have to end before it fits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from .fleet import SlotFleet
from .gangs import by_place, prefix_with
from .model import Placement, SlotRequest

MAX_PASSED_S = 300.0  # how long other requests may pass one that fits nowhere yet

Rank = tuple[
    int, int
]  # the number of allocations that have to end before the agent has enough free slots; the agent
Option = tuple[
    int, Sequence[Rank]
]  # the number of agents that a request needs; the agents to choose from, best first


def agents_to_keep(
    fleet: SlotFleet, request: SlotRequest, held: Iterable[Placement], waited_s: float
) -> list[int]:
    """Return the agents to keep for a request; none if it would not even fit on an empty fleet.

    `held` are the slots of running allocations. One more agent is kept each time the wait has doubled, because
    allocations on the first ones may run forever.
    """
    options = list(_options(fleet, request, _EndingAllocations(fleet, held)))
    if not options:
        return []
    count, ranks = min(options, key=_cost)
    alternatives = int(waited_s // MAX_PASSED_S).bit_length()
    return [agent for _, agent in ranks[: count + alternatives - 1]]


def _cost(option: Option) -> tuple[int, int]:
    """Return how many allocations have to end on the needed agents, and the number of these agents."""
    count, ranks = option
    return sum(to_end for to_end, _ in ranks[:count]), count


def _options(
    fleet: SlotFleet, request: SlotRequest, ending: "_EndingAllocations"
) -> Iterator[Option]:
    """Yield one agent, gangs of one size, and gangs of several sizes if the pool mixes sizes."""
    slots, total, roster = request.least_slots, fleet.total, fleet.roster
    blocked = fleet.blocked(request)
    usable = [a for a, is_open in enumerate(roster.open) if is_open and a not in blocked]
    single = ending.ranked((agent for agent in usable if total[agent] >= slots), slots)
    if single:
        yield 1, single
    if request.single_agent:
        return
    sizes = sorted({total[agent] for agent in usable} - {0}, reverse=True)
    whole = [
        (size, ending.ranked((agent for agent in usable if total[agent] == size), size))
        for size in sizes
    ]
    for size, ranks in whole:
        count, rest = divmod(slots, size)
        for group in by_place(ranks, lambda rank: roster.places[rank[1]]):
            if not rest and 1 < count <= len(group):
                yield count, group
    if roster.mixes_sizes:
        every = sorted(chain.from_iterable(ranks for _, ranks in whole))
        for group in by_place(every, lambda rank: roster.places[rank[1]]):
            agent_count = prefix_with(slots, [total[agent] for _, agent in group])
            if agent_count is not None:
                yield agent_count, group


class _EndingAllocations:
    """Counts the allocations that have to end before agents have enough free slots."""

    def __init__(self, fleet: SlotFleet, held: Iterable[Placement]) -> None:
        self._free = fleet.free
        self._held: defaultdict[int, list[int]] = defaultdict(list)
        for agent_id, slots in held:
            if agent_id in fleet.roster.index:
                self._held[fleet.roster.index[agent_id]].append(slots)

    def ranked(self, agents: Iterable[int], slots: int) -> list[Rank]:
        """Return the agents that can have so many free slots, fewest ending allocations first."""
        ranks = ((self._to_end(agent, slots), agent) for agent in agents)
        return sorted((count, agent) for count, agent in ranks if count is not None)

    def _to_end(self, agent: int, slots: int) -> int | None:
        missing = slots - self._free[agent]
        return prefix_with(missing, sorted(self._held[agent], reverse=True))
