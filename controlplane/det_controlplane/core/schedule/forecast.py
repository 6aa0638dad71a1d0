"""What the fleet can offer once the right running allocations have left.

Victims leave in one fixed order, the least important first. So for every agent and size there is a *turn*: how
far down that order one must go until the agent has the room. The smallest turn is the choice, and only the
victims on the chosen agents are asked to leave. Heaps keep the turns, so one choice does not look at every agent.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from .fleet import Fit, Fleet, greedy_mix
from .model import Request, Running

_Entry = tuple[int, int, int]  # turn, agent, version
_NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Reservation:
    fit: Fit
    victims: tuple[Running, ...]


class Forecast:
    """Room after the leaving have left, less what waiting requests have reserved."""

    def __init__(
        self, fleet: Fleet, leaving: Iterable[Running], victims: Sequence[tuple[int, Running]]
    ) -> None:
        """`leaving` go whatever happens; `victims` are (rank, running), the first to be asked first.

        A victim that was asked earlier keeps its turn, so that the next pass makes the same choices.
        """
        self._fleet = fleet
        self._free = list(fleet.free)
        self._version = [0] * len(fleet.free)
        self._turns: dict[tuple[int, int], list[_Entry]] = {}
        self._sizes = sorted({t for t, o in zip(fleet.total, fleet.open, strict=True) if t and o})
        self._gone: set[int] = set()
        self._victims = [running for _, running in victims]
        self._ranks = [-rank for rank, _ in victims]
        self._lowest_out_of_reach = len(victims) + 1
        self._on: list[list[tuple[int, int]]] = [[] for _ in fleet.free]
        for turn, running in enumerate(self._victims, start=1):
            for agent, units in self._seats(running):
                self._on[agent].append((turn, units))
        for running in leaving:
            self._give_back(running)

    def take(self, fit: Fit) -> None:
        """Somebody started here in this pass."""
        for agent, slots in fit:
            self._free[agent] -= slots or 1
            self._changed(agent)

    def reserve(self, request: Request, rank: int) -> Reservation | None:
        """Room and victims for a request of this rank; None if less important ones hold too little.

        Called in queue order, so that the reach only shrinks.
        """
        limit = bisect_left(self._ranks, -rank)
        self._count_on_leavers_above(limit)
        blocked = self._fleet.blocked(request)
        units = request.slots or 1
        turn, fit = self._single(units, limit, blocked)
        if request.slots > 1 and not request.single_agent:
            gang_turn, gang = self._gang(units, limit, blocked)
            if gang_turn < turn:
                turn, fit = gang_turn, gang
        return None if turn > limit else Reservation(fit, self._ask(fit))

    def _seats(self, running: Running) -> list[tuple[int, int]]:
        index, is_open = self._fleet.index, self._fleet.open
        seats = [
            (index[p.agent_id], p.slots or 1) for p in running.placements if p.agent_id in index
        ]
        return [(agent, units) for agent, units in seats if is_open[agent]]

    def _give_back(self, running: Running) -> None:
        for agent, units in self._seats(running):
            self._free[agent] = min(self._free[agent] + units, self._fleet.total[agent])
            self._changed(agent)

    def _count_on_leavers_above(self, limit: int) -> None:
        while self._lowest_out_of_reach > limit + 1:
            self._lowest_out_of_reach -= 1
            self._leave(self._lowest_out_of_reach, only_if_asked=True)

    def _leave(self, turn: int, *, only_if_asked: bool = False) -> None:
        victim = self._victims[turn - 1]
        if turn not in self._gone and (victim.releasing or not only_if_asked):
            self._gone.add(turn)
            self._give_back(victim)

    def _turn(self, agent: int, units: int) -> int:
        room = self._free[agent]
        if room >= units:
            return 0
        for turn, freed in self._on[agent]:
            if turn not in self._gone:
                room += freed
                if room >= units:
                    return turn
        return _NEVER

    def _changed(self, agent: int) -> None:
        self._version[agent] += 1
        for (units, size), heap in self._turns.items():
            turn = self._turn(agent, units)
            if turn < _NEVER and size in (0, self._fleet.total[agent]):
                heappush(heap, (turn, agent, self._version[agent]))

    def _heap(self, units: int, size: int) -> list[_Entry]:
        """The turns of all agents, or of those of one size."""
        heap = self._turns.get((units, size))
        if heap is None:
            total = self._fleet.total
            agents = [a for a, o in enumerate(self._fleet.open) if o and size in (0, total[a])]
            turns = [(self._turn(a, units), a, self._version[a]) for a in agents]
            heap = self._turns[units, size] = [entry for entry in turns if entry[0] < _NEVER]
            heapify(heap)
        return heap

    def _first(
        self, heap: list[_Entry], count: int, limit: int, blocked: frozenset[int]
    ) -> list[_Entry]:
        """Up to `count` agents with the smallest turns."""
        found: list[_Entry] = []
        passed_over: list[_Entry] = []
        while heap and len(found) < count and heap[0][0] <= limit:
            entry = heappop(heap)
            if entry[2] == self._version[entry[1]]:
                (passed_over if entry[1] in blocked else found).append(entry)
        for entry in (*found, *passed_over):
            heappush(heap, entry)
        return found

    def _single(self, units: int, limit: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        found = self._first(self._heap(units, 0), 1, limit, blocked)
        return (found[0][0], [(found[0][1], units)]) if found else (_NEVER, [])

    def _gang(self, slots: int, limit: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        """Wholly free agents: of one size, or of several where the pool allows it."""
        chosen: tuple[int, Fit] = (_NEVER, [])
        for size in reversed(self._sizes):
            count, rest = divmod(slots, size)
            if rest:
                continue
            found = self._first(self._heap(size, size), count, limit, blocked)
            if len(found) == count and found[-1][0] < chosen[0]:
                chosen = (found[-1][0], [(agent, size) for _, agent, _ in found])
        if chosen[1] or not self._fleet.mixes_sizes:
            return chosen
        return self._mix(slots, limit, blocked)

    def _mix(self, slots: int, limit: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        everyone = len(self._version)
        found = sorted(
            entry
            for size in self._sizes
            for entry in self._first(self._heap(size, size), everyone, limit, blocked)
        )
        room = 0
        for at, (turn, agent, _) in enumerate(found):
            room += self._fleet.total[agent]
            if room >= slots:
                agents = [(a, self._fleet.total[a]) for _, a, _ in found[: at + 1]]
                agents.sort(key=lambda seat: (-seat[1], seat[0]))
                return turn, greedy_mix(agents, slots) or []
        return _NEVER, []

    def _ask(self, fit: Fit) -> tuple[Running, ...]:
        gang = len(fit) > 1
        turns: set[int] = set()
        for agent, units in fit:
            turns.update(self._needed(agent, self._fleet.total[agent] if gang else units))
        for turn in turns:
            self._leave(turn)
        for agent, units in fit:
            self._free[agent] -= units
            self._changed(agent)
        victims = (self._victims[turn - 1] for turn in sorted(turns))
        return tuple(victim for victim in victims if not victim.releasing)

    def _needed(self, agent: int, units: int) -> list[int]:
        """The turns that make the room, without those the room does not depend on."""
        short = units - self._free[agent]
        in_reach: list[tuple[int, int]] = []
        for turn, freed in self._on[agent]:
            if short <= 0:
                break
            if turn not in self._gone:
                in_reach.append((turn, freed))
                short -= freed
        needed: list[int] = []
        for turn, freed in reversed(in_reach):
            if short + freed <= 0 and not self._victims[turn - 1].releasing:
                short += freed
            else:
                needed.append(turn)
        return needed
