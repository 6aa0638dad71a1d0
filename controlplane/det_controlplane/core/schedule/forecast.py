"""What the fleet can offer once the right running allocations have left.

Victims leave in one fixed order, the least important first. So for every agent and size there is a *turn*: how
far down that order one must go until the agent has the room. The smallest turn is the choice, and only the
victims on the chosen agents are asked to leave. Heaps keep the turns, so one choice does not look at every agent.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush, heapreplace

from .fleet import NOT_BLOCKED, Fit, Fleet, greedy_mix
from .model import Request, Running

_Entry = tuple[int, int]  # turn, agent
_NEVER = 1 << 60


class Forecast:
    """Room after the leaving have left, less what waiting requests have reserved."""

    def __init__(
        self, fleet: Fleet, leaving: Iterable[Running], victims: Sequence[tuple[int, Running]]
    ) -> None:
        """`leaving` go whatever happens; `victims` are (place, running), the first to be asked first.

        A victim that was asked earlier keeps its turn, so that the next pass makes the same choices.
        """
        self._fleet = fleet
        self._free = list(fleet.free)
        self._open_index = {a: i for a, i in fleet.index.items() if fleet.open[i]}
        self._turns: dict[tuple[int, int], list[_Entry]] = {}
        self._sizes = sorted({t for t, o in zip(fleet.total, fleet.open, strict=True) if t and o})
        self._gone: set[int] = set()
        self._roomier: set[int] = set()
        self._victims = [running for _, running in victims]
        self._places = [-place for place, _ in victims]
        self._lowest_out_of_reach = len(victims) + 1
        self._seats = [self._seats_of(running) for running in self._victims]
        self._on: list[list[tuple[int, int]]] = [[] for _ in fleet.free]
        for turn, seats in enumerate(self._seats, start=1):
            for agent, units in seats:
                self._on[agent].append((turn, units))
        for running in leaving:
            self._give_back(self._seats_of(running))

    def take(self, fit: Fit) -> None:
        """Somebody started here in this pass."""
        for agent, slots in fit:
            self._free[agent] -= slots or 1

    def reserve(self, request: Request, place: int) -> tuple[Fit, list[Running]] | None:
        """Room and victims for a request at this place; None if less important ones hold too little.

        Called in queue order, so that the reach only shrinks.
        """
        limit = bisect_left(self._places, -place)
        if self._lowest_out_of_reach > limit + 1:
            self._count_on_leavers_above(limit)
        blocked = self._fleet.blocked(request) if request.blocked_agents else NOT_BLOCKED
        units = request.slots or 1
        turn, fit = self._single(units, limit, blocked)
        if turn and request.slots > 1 and not request.single_agent:
            gang_turn, gang = self._gang(units, limit, blocked)
            if gang_turn < turn:
                turn, fit = gang_turn, gang
        if turn > limit:
            return None
        if turn == 0:
            self.take(fit)
            return fit, []
        return fit, self._ask(fit)

    def _seats_of(self, running: Running) -> Fit:
        index = self._open_index
        return [(index[a], slots or 1) for a, slots in running.placements if a in index]

    def _give_back(self, seats: Fit) -> None:
        for agent, units in seats:
            self._free[agent] = min(self._free[agent] + units, self._fleet.total[agent])
            self._roomier.add(agent)

    def _count_on_leavers_above(self, limit: int) -> None:
        while self._lowest_out_of_reach > limit + 1:
            self._lowest_out_of_reach -= 1
            if self._victims[self._lowest_out_of_reach - 1].releasing:
                self._leave(self._lowest_out_of_reach)

    def _leave(self, turn: int) -> None:
        if turn not in self._gone:
            self._gone.add(turn)
            self._give_back(self._seats[turn - 1])

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

    def _heap(self, units: int, size: int) -> list[_Entry]:
        """The turns of all agents, or of those of one size.

        A turn in a heap may be too early, and is then corrected when it comes up; it is never too late, because
        agents that became roomier are entered again here.
        """
        if self._roomier:
            self._enter_roomier()
        found = self._turns.get((units, size))
        if found is None:
            found = self._turns[units, size] = self._all_turns(units, size)
        return found

    def _all_turns(self, units: int, size: int) -> list[_Entry]:
        """In order, so that they are a heap already: one walk over the victims serves all agents."""
        total, is_open = self._fleet.total, self._fleet.open
        short = [
            units - free if is_open[a] and size in (0, total[a]) else 0
            for a, free in enumerate(self._free)
        ]
        turns = [
            (0, a)
            for a, missing in enumerate(short)
            if missing <= 0 and is_open[a] and size in (0, total[a])
        ]
        for turn, seats in enumerate(self._seats, start=1):
            for agent, freed in seats:
                missing = short[agent]
                if missing > 0 and turn not in self._gone:
                    short[agent] = missing - freed
                    if missing <= freed:
                        turns.append((turn, agent))
        return turns

    def _enter_roomier(self) -> None:
        for agent in self._roomier:
            for (units, size), heap in self._turns.items():
                turn = self._turn(agent, units)
                if turn < _NEVER and size in (0, self._fleet.total[agent]):
                    heappush(heap, (turn, agent))
        self._roomier.clear()

    def _first(
        self, units: int, size: int, count: int, limit: int, blocked: frozenset[int]
    ) -> list[_Entry]:
        """Up to `count` agents with the smallest turns; all turns within the limit."""
        heap = self._heap(units, size)
        found: dict[int, int] = {}
        passed_over: dict[int, int] = {}
        while heap and len(found) < count and heap[0][0] <= limit:
            turn, agent = heap[0]
            now = self._turn(agent, units)
            if turn < now < _NEVER:
                heapreplace(heap, (now, agent))
                continue
            heappop(heap)
            if now == turn:
                (passed_over if agent in blocked else found)[agent] = turn
        for agent, turn in (*found.items(), *passed_over.items()):
            heappush(heap, (turn, agent))
        return [(turn, agent) for agent, turn in found.items()]

    def _single(self, units: int, limit: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        heap, free = self._heap(units, 0), self._free
        while not blocked and heap and heap[0][0] <= limit:
            turn, agent = heap[0]
            now = 0 if free[agent] >= units else self._turn(agent, units)
            if now == turn:
                return turn, [(agent, units)]
            if now < turn:  # entered again already, with its earlier turn
                heappop(heap)
            else:
                heapreplace(heap, (now, agent))
        found = self._first(units, 0, 1, limit, blocked) if blocked else []
        return (found[0][0], [(found[0][1], units)]) if found else (_NEVER, [])

    def _gang(self, slots: int, limit: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        """Wholly free agents: of one size, or of several where the pool allows it."""
        chosen: tuple[int, Fit] = (_NEVER, [])
        for size in reversed(self._sizes):
            count, rest = divmod(slots, size)
            if rest or count < 2:
                continue
            found = self._first(size, size, count, limit, blocked)
            if len(found) == count and found[-1][0] < chosen[0]:
                chosen = (found[-1][0], [(agent, size) for _, agent in found])
        if chosen[1] or not self._fleet.mixes_sizes:
            return chosen
        return self._mix(slots, limit, blocked)

    def _mix(self, slots: int, limit: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        everyone = len(self._free)
        found = sorted(
            entry
            for size in self._sizes
            for entry in self._first(size, size, everyone, limit, blocked)
        )
        room = 0
        for at, (turn, agent) in enumerate(found):
            room += self._fleet.total[agent]
            if room >= slots:
                agents = [(a, self._fleet.total[a]) for _, a in found[: at + 1]]
                agents.sort(key=lambda seat: (-seat[1], seat[0]))
                return turn, greedy_mix(agents, slots) or []
        return _NEVER, []

    def _ask(self, fit: Fit) -> list[Running]:
        gang = len(fit) > 1
        turns: set[int] = set()
        for agent, units in fit:
            turns.update(self._needed(agent, self._fleet.total[agent] if gang else units))
        for turn in turns:
            self._leave(turn)
        for agent, units in fit:
            self._free[agent] -= units
            if not self._free[agent]:
                self._roomier.discard(agent)  # what it gained is gone: no turn came closer
        victims = [self._victims[turn - 1] for turn in sorted(turns)]
        return [victim for victim in victims if not victim.releasing]

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
