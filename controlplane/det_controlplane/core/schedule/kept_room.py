"""Keep room for a request that waits too long (docs/concepts/scheduling.md#priority).

A large request may be passed for ever by small ones behind it, because they fit wherever it does not yet. After a limit
nothing behind it starts on the agents where it needs the fewest others to end.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from .fleet import Fleet
from .model import Placement, Request
from .places import by_place

MOST_PASSED_S = 300.0  # how long others may start before a request that fits nowhere yet

Rank = tuple[int, int]  # allocations that have to end before the agent has the room, agent


def agents_to_keep(
    fleet: Fleet, request: Request, held: Iterable[Placement], waited_s: float
) -> list[int]:
    """Return the agents to keep for a request; none if it fits nowhere however many end.

    With each doubling of its wait there is one agent more: what runs on the first ones may run for ever.
    """
    room = _Room(fleet, held)
    blocked = fleet.blocked(request)
    alternatives = int(waited_s // MOST_PASSED_S).bit_length()
    plans = list(_plans(fleet, room, request, blocked))
    if not plans:
        return []
    count, ranks = min(plans, key=lambda plan: (sum(n for n, _ in plan[1][: plan[0]]), plan[0]))
    return [agent for _, agent in islice(ranks, count + alternatives - 1)]


def _plans(
    fleet: Fleet, room: "_Room", request: Request, blocked: Collection[int]
) -> Iterator[tuple[int, list[Rank]]]:
    """Yield how many agents the request needs, and those that it could use, the nearest first."""
    slots, total = request.slots, fleet.total

    def place_of(rank: Rank) -> str:
        return fleet.places[rank[1]]

    sizes = {size for size, is_open in zip(total, fleet.open, strict=True) if is_open and size}
    usable = [a for a in range(len(total)) if fleet.open[a] and a not in blocked]
    single = room.ranked((a for a in usable if total[a] >= slots), slots)
    if single:
        yield 1, single
    if request.single_agent:
        return
    for size in sorted(sizes, reverse=True):
        count, rest = divmod(slots, size)
        whole = room.ranked((a for a in usable if total[a] == size), size)
        for together in by_place(whole, place_of):
            if not rest and 1 < count <= len(together):
                yield count, together
    if fleet.mixes_sizes:
        whole = sorted(rank for size in sizes for rank in room.ranked(
            (a for a in usable if total[a] == size), size))  # fmt: skip
        for together in by_place(whole, place_of):
            yield from _mixed_plan(together, slots, total)


def _mixed_plan(
    whole: Sequence[Rank], slots: int, total: Sequence[int]
) -> Iterator[tuple[int, list[Rank]]]:
    reached = 0
    for count, (_, agent) in enumerate(whole, start=1):
        reached += total[agent]
        if reached >= slots:
            yield count, list(whole)
            return


class _Room:
    """The slots of each agent that are free, or come free when what holds them ends."""

    def __init__(self, fleet: Fleet, held: Iterable[Placement]) -> None:
        self._free = fleet.free
        self._held: defaultdict[int, list[int]] = defaultdict(list)
        for agent_id, slots in held:
            if agent_id in fleet.index:
                self._held[fleet.index[agent_id]].append(slots)

    def ranked(self, agents: Iterable[int], units: int) -> list[Rank]:
        """Return the agents that can have so many units, those first where the fewest allocations have to end."""
        ranks = ((self._to_end(agent, units), agent) for agent in agents)
        return sorted((count, agent) for count, agent in ranks if count is not None)

    def _to_end(self, agent: int, units: int) -> int | None:
        free = self._free[agent]
        if free >= units:
            return 0
        for count, slots in enumerate(sorted(self._held[agent], reverse=True), start=1):
            free += slots
            if free >= units:
                return count
        return None
