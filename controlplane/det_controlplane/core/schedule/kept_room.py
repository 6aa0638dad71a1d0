"""Keep room for a request that waits too long (docs/concepts/scheduling.md#priority).

A large request may be passed for ever by small ones behind it, because they fit wherever it does not yet. After a limit
nothing behind it starts on the agents where it needs the fewest others to end.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .fleet import Fleet
from .model import Placement, Request
from .places import by_place

MOST_PASSED_S = 300.0  # how long others may start before a request that fits nowhere yet

Rank = tuple[int, int]  # allocations that have to end before the agent has the room, agent


class _Plan(NamedTuple):
    """Hold the number of agents that a request needs, and the agents that it could use, the nearest first."""

    needed: int
    ranks: Sequence[Rank]

    @property
    def cost(self) -> tuple[int, int]:
        """Return how many allocations have to end on the first agents, and how many agents these are."""
        return sum(to_end for to_end, _ in self.ranks[: self.needed]), self.needed


def agents_to_keep(
    fleet: Fleet, request: Request, held: Iterable[Placement], waited_s: float
) -> list[int]:
    """Return the agents to keep for a request; none if it fits nowhere however many end.

    With each doubling of its wait there is one agent more: what runs on the first ones may run for ever.
    """
    plans = list(_plans(_Room(fleet, held, request), request, mixes_sizes=fleet.mixes_sizes))
    if not plans:
        return []
    best = min(plans, key=lambda plan: plan.cost)
    alternatives = int(waited_s // MOST_PASSED_S).bit_length()
    return [agent for _, agent in best.ranks[: best.needed + alternatives - 1]]


def _plans(room: "_Room", request: Request, *, mixes_sizes: bool) -> Iterator[_Plan]:
    """Yield where a request could go: one agent, whole ones of one size, or of several where the pool mixes them."""
    slots = request.slots
    single = room.ranked((a for a in room.usable if room.total[a] >= slots), slots)
    if single:
        yield _Plan(1, single)
    if request.single_agent:
        return
    for size in room.sizes:
        count, rest = divmod(slots, size)
        for together in by_place(room.whole(size), room.place_of):
            if not rest and 1 < count <= len(together):
                yield _Plan(count, together)
    if mixes_sizes:
        whole = sorted(rank for size in room.sizes for rank in room.whole(size))
        for together in by_place(whole, room.place_of):
            count = room.count_for(slots, together)
            if count:
                yield _Plan(count, together)


class _Room:
    """The slots of each agent that are free, or come free when what holds them ends."""

    def __init__(self, fleet: Fleet, held: Iterable[Placement], request: Request) -> None:
        self.total = fleet.total
        blocked = fleet.blocked(request)
        opened = [agent for agent, is_open in enumerate(fleet.open) if is_open]
        self.usable = [agent for agent in opened if agent not in blocked]
        self.sizes = sorted({self.total[agent] for agent in opened} - {0}, reverse=True)
        self._places = fleet.places
        self._free = fleet.free
        self._held: defaultdict[int, list[int]] = defaultdict(list)
        for agent_id, slots in held:
            if agent_id in fleet.index:
                self._held[fleet.index[agent_id]].append(slots)

    def place_of(self, rank: Rank) -> str:
        return self._places[rank[1]]

    def whole(self, size: int) -> list[Rank]:
        """Rank the agents of a size, for requests that need all of them."""
        return self.ranked((a for a in self.usable if self.total[a] == size), size)

    def ranked(self, agents: Iterable[int], units: int) -> list[Rank]:
        """Return the agents that can have so many units, those first where the fewest allocations have to end."""
        ranks = ((self._to_end(agent, units), agent) for agent in agents)
        return sorted((count, agent) for count, agent in ranks if count is not None)

    def count_for(self, slots: int, whole: Sequence[Rank]) -> int:
        """Return how many of these agents, from the first on, have so many slots; 0 where all have less."""
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
