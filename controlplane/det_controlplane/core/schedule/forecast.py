"""What the fleet can offer once the right running allocations have left.

Victims leave in one fixed order, the least important first. So for every agent and size there is a *turn*: how
far down that order one must go until the agent has the room; 0 where it has the room already. The smallest turn is
the choice, and only the victims on the chosen agents are asked to leave.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import inf

from .fleet import NOT_BLOCKED, Fit, Fleet
from .model import Job, Request, Running
from .slot_fleet import greedy_mix
from .turns import NEVER, Room, Turns

_LAST = (inf,)  # after every job
_NOBODY: list[Running] = []


class Forecast:
    """Room after the leaving have left, less what waiting requests have reserved."""

    def __init__(
        self, fleet: Fleet, leaving: Iterable[Running], candidates: Sequence[Running]
    ) -> None:
        """`leaving` go whatever happens; `candidates` are in queue order, the last to be asked first.

        A candidate that was asked earlier keeps its turn, so that the next pass makes the same choices.
        """
        self._fleet = fleet
        self._jobs = [running.job for running in candidates]
        self._next_job: tuple[object, ...] = ()  # from which on fewer can be asked
        self._victims = candidates[::-1]
        self._room = Room(fleet, self._victims)
        self._turns: dict[int, Turns] = {}
        self._turns_of_size: dict[int, Turns] = {}
        self._sizes = sorted({t for t, o in zip(fleet.total, fleet.open, strict=True) if t and o})
        self._room.give_back(leaving)

    def take(self, fit: Fit) -> None:
        """Somebody started here in this pass."""
        for agent, slots in fit:
            self._room.free[agent] -= slots or 1

    def reserve(self, request: Request) -> tuple[Fit, list[Running]] | None:
        """Room and victims for a request; None if less important ones hold too little.

        Called in queue order, so that the reach only shrinks.
        """
        units = request.slots or 1
        if request.blocked_agents:
            self._look_from(request.job)
            turn, fit = self._choice(request, units, self._fleet.blocked(request))
        else:
            agent = self.claim(units, request.job)
            if agent is not None:
                return [(agent, units)], _NOBODY
            turn, fit = self._choice(request, units, NOT_BLOCKED)
        if turn == 0:
            self.take(fit)
            return fit, _NOBODY
        return None if turn == NEVER else (fit, self._ask(fit))

    def claim(self, units: int, job: Job) -> int | None:
        """An agent that has the room without asking anybody to leave; it is reserved."""
        room = self._room
        if room.roomier or job >= self._next_job:
            self._look_from(job)
        entry = (self._turns.get(units) or self._turns_for(units)).first()
        if entry is None or entry[0]:
            return None
        room.free[entry[1]] -= units
        return entry[1]

    def _look_from(self, job: Job) -> None:
        """From further down the queue fewer can be asked; those of them that leave anyhow are counted on."""
        passed = bisect_right(self._jobs, job)
        self._next_job = self._jobs[passed] if passed < len(self._jobs) else _LAST
        limit = len(self._jobs) - passed
        passed_by = range(self._room.limit, limit, -1)
        self._room.leave(turn for turn in passed_by if self._victims[turn - 1].releasing)
        self._room.limit = limit
        if self._room.roomier:
            self._enter_roomier()

    def _choice(self, request: Request, units: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        """One agent, unless a gang has to wait for fewer to leave."""
        chosen: tuple[int, Fit] = (NEVER, [])
        turns = self._turns_for(units)
        entry = next(iter(turns.first_of(1, blocked)), None) if blocked else turns.first()
        if entry is not None:
            chosen = (entry[0], [(entry[1], units)])
        if chosen[0] and request.slots > 1 and not request.single_agent:
            gang = self._gang(units, blocked)
            return gang if gang[0] < chosen[0] else chosen
        return chosen

    def _turns_for(self, units: int) -> Turns:
        if units not in self._turns:
            self._turns[units] = Turns(self._room, units, 0)
        return self._turns[units]

    def _gang(self, slots: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        """Wholly free agents: of one size, or of several where the pool allows it."""
        chosen: tuple[int, Fit] = (NEVER, [])
        for size in reversed(self._sizes):
            count, rest = divmod(slots, size)
            if rest or count < 2:
                continue
            found = self._whole(size).first_of(count, blocked)
            if len(found) == count and found[-1][0] < chosen[0]:
                chosen = (found[-1][0], [(agent, size) for _, agent in found])
        if chosen[1] or not self._fleet.mixes_sizes:
            return chosen
        return self._mix(slots, blocked)

    def _whole(self, size: int) -> Turns:
        if size not in self._turns_of_size:
            self._turns_of_size[size] = Turns(self._room, size, size)
        return self._turns_of_size[size]

    def _mix(self, slots: int, blocked: frozenset[int]) -> tuple[int, Fit]:
        everyone = len(self._fleet.agents)
        found = sorted(
            entry for size in self._sizes for entry in self._whole(size).first_of(everyone, blocked)
        )
        room = 0
        for at, (turn, agent) in enumerate(found):
            room += self._fleet.total[agent]
            if room >= slots:
                agents = [(a, self._fleet.total[a]) for _, a in found[: at + 1]]
                agents.sort(key=lambda seat: (-seat[1], seat[0]))
                return turn, greedy_mix(agents, slots) or []
        return NEVER, []

    def _enter_roomier(self) -> None:
        every = (*self._turns.values(), *self._turns_of_size.values())
        for agent in self._room.roomier:
            for turns in every:
                turns.reconsider(agent)
        self._room.roomier.clear()

    def _ask(self, fit: Fit) -> list[Running]:
        gang = len(fit) > 1
        room, total = self._room, self._fleet.total
        turns: set[int] = set()
        for agent, units in fit:
            turns.update(room.needed(agent, total[agent] if gang else units))
        room.leave(turns)
        for agent, units in fit:
            room.free[agent] -= units
            if not room.free[agent]:
                room.roomier.discard(agent)  # what it gained is gone: no turn came closer
        victims = [self._victims[turn - 1] for turn in sorted(turns)]
        return [victim for victim in victims if not victim.releasing]
