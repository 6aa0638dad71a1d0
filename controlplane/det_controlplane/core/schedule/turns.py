"""How far down the order of those that leave one has to go until an agent has room."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain

from .fleet import Fleet
from .model import Running

Entry = tuple[int, int]  # turn, agent
Seat = tuple[int, int, int, int]  # turn, agent, units, units with those of earlier turns
NEVER = 1 << 60
_END: Entry = (NEVER, 0)


class Room:
    """What is free on each agent, now and after each turn."""

    def __init__(self, fleet: Fleet, victims: Sequence[Running]) -> None:
        """The first of `victims` has turn 1."""
        self.free = list(fleet.free)
        self.total = fleet.total
        self.limit = len(victims)  # the last turn anybody may still wait for; it only shrinks
        self.roomier: set[int] = set()  # agents whose turns may have become earlier
        self.gone: set[int] = set()
        self.left: set[int] = set()  # agents that somebody has left
        self._victims = victims
        self._has_slots = fleet.has_slots
        self._open = fleet.index
        if not all(fleet.open):
            self._open = {a: i for a, i in fleet.index.items() if fleet.open[i]}
        self._on: list[list[Seat]] = [[] for _ in self.free]
        self.seats = self._seats_of(victims)

    def leave(self, turns: Iterable[int]) -> None:
        still_there = [turn for turn in turns if turn not in self.gone]
        self.gone.update(still_there)
        self.give_back([self._victims[turn - 1] for turn in still_there])

    def give_back(self, leaving: Iterable[Running]) -> None:
        free, total = self.free, self.total
        for running in leaving:
            for name, slots in running.placements:
                agent, units = self._open.get(name), slots if self._has_slots else 1
                if agent is not None and units:
                    room = free[agent] + units
                    free[agent] = room if room < total[agent] else total[agent]
                    self.roomier.add(agent)
                    self.left.add(agent)

    def turn(self, agent: int, units: int) -> int:
        room = self.free[agent]
        if room >= units:
            return 0
        for turn, _, freed, _ in self._on[agent]:
            if turn not in self.gone:
                room += freed
                if room >= units:
                    return turn
        return NEVER

    def needed(self, agent: int, units: int) -> list[int]:
        """The turns that make the room, without those that the room does not depend on."""
        short = units - self.free[agent]
        found: list[Seat] = []
        for seat in self._on[agent]:
            if short <= 0:
                break
            if seat[0] not in self.gone:
                found.append(seat)
                short -= seat[2]
        turns = [seat[0] for seat in found]
        return turns if short == 0 else self._fewer(found, short)

    def _fewer(self, in_reach: list[Seat], short: int) -> list[int]:
        """More would be freed than is short; but who leaves anyhow is counted on."""
        needed: list[int] = []
        for turn, _, freed, _ in reversed(in_reach):
            if short + freed <= 0 and not self._victims[turn - 1].releasing:
                short += freed
            else:
                needed.append(turn)
        return needed

    def _seats_of(self, leaving: Sequence[Running]) -> list[Seat]:
        """What they leave on open agents; slots that were disabled under them come back to nobody."""
        index, on, slotless = self._open, self._on, not self._has_slots
        seats: list[Seat] = []
        for turn, running in enumerate(leaving, start=1):
            where = running.placements
            for name, slots in where if len(where) == 1 else sorted(where):
                agent = index.get(name)
                if agent is not None and (slots or slotless):
                    units, before = slots or 1, on[agent]
                    seat = (turn, agent, units, before[-1][3] + units if before else units)
                    before.append(seat)
                    seats.append(seat)
        return seats


class Turns:
    """The agents of one size, or of all sizes (0), by their turns for so many units.

    Agents are met in order, and no further down than somebody asks. Those whose turn changes behind that point go
    to a heap. A turn in it may be too early, which shows when it comes up; it is never too late, because agents that
    became roomier are entered again.
    """

    def __init__(self, room: Room, units: int, size: int) -> None:
        self._room = room
        self._units = units
        self._size = size
        self._at: Entry = (0, 0)
        within = units <= max(room.total, default=0)
        self._met = chain(self._meet_roomy(), self._meet_later()) if within else self._end()
        self._behind: list[Entry] = []

    def first(self) -> Entry | None:
        """The smallest turn within the limit."""
        behind, room, units = self._behind, self._room, self._units
        while behind:
            entry = behind[0]
            turn, agent = entry
            now = room.turn(agent, units) if self._at[0] or room.free[agent] >= units else NEVER
            if now == turn:
                break
            heappop(behind)
            if turn < now:
                self._enter((now, agent))
        else:
            entry = next(self._met, _END)
        return entry if entry[0] <= room.limit else None

    def first_of(self, count: int, blocked: Collection[int]) -> list[Entry]:
        """Up to `count` agents with the smallest turns within the limit."""
        found: dict[int, int] = {}
        passed_over: dict[int, int] = {}
        while len(found) < count and (entry := self.first()) is not None:
            turn, agent = entry
            if entry is self._at:
                self._at = (turn, agent + 1)
            else:
                heappop(self._behind)
            (passed_over if agent in blocked else found)[agent] = turn
        for agent, turn in (*found.items(), *passed_over.items()):
            heappush(self._behind, (turn, agent))
        return [(turn, agent) for agent, turn in found.items()]

    def reconsider(self, agent: int) -> None:
        """It became roomier."""
        if self._size in (0, self._room.total[agent]):
            self._enter((self._room.turn(agent, self._units), agent))

    def _enter(self, entry: Entry) -> None:
        if entry < self._at:  # else it is met later on
            heappush(self._behind, entry)

    def _meet_roomy(self) -> Iterator[Entry]:
        """Agents for which nobody has to leave, each again and again until it is passed by or has the room no more."""
        units, size, free, total = self._units, self._size, self._room.free, self._room.total
        for agent in range(len(free)):
            while free[agent] >= units and (not size or size == total[agent]):
                at = self._at = (0, agent)
                yield at
                if self._at is not at:
                    break

    def _meet_later(self) -> Iterator[Entry]:
        """The others, each again and again until it is passed by or its turn has changed."""
        room, units, size = self._room, self._units, self._size
        free, total, gone, left = room.free, room.total, room.gone, room.left
        for turn, agent, freed, freed_until in room.seats:
            if turn > room.limit:
                break  # for good: the limit only shrinks
            # Most are passed by without the price of a call: there is room before that turn, or not yet.
            while free[agent] < units <= (until := free[agent] + freed_until):
                if size and total[agent] != size:
                    break
                if agent in left:
                    reached = turn not in gone and room.turn(agent, units) == turn
                else:
                    reached = until - freed < units
                if not reached or turn > room.limit:
                    break
                at = self._at = (turn, agent)
                yield at
                if self._at is not at:
                    break
        yield from self._end()

    def _end(self) -> Iterator[Entry]:
        self._at = _END
        return iter(())
