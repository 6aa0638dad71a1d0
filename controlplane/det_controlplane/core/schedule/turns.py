"""How far down the order of those that leave one has to go until an agent has room."""

from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from .fleet import Fleet
from .model import Running

Entry = tuple[int, int]  # turn, agent
Seat = tuple[int, int, int]  # turn, agent, units
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
        self._victims = victims
        self._has_slots = fleet.has_slots
        self._open = {a: i for a, i in fleet.index.items() if fleet.open[i]}
        self.seats = self._seats_of(victims)
        self._on: list[list[Seat]] = [[] for _ in self.free]
        for seat in self.seats:
            self._on[seat[1]].append(seat)

    def give_back(self, running: Running) -> None:
        for name, slots in running.placements:
            agent, units = self._open.get(name), slots if self._has_slots else 1
            if agent is not None and units:
                self.free[agent] = min(self.free[agent] + units, self.total[agent])
                self.roomier.add(agent)

    def leave(self, turn: int) -> None:
        if turn not in self.gone:
            self.gone.add(turn)
            self.give_back(self._victims[turn - 1])

    def turn(self, agent: int, units: int) -> int:
        room = self.free[agent]
        if room >= units:
            return 0
        for turn, _, freed in self._on[agent]:
            if turn not in self.gone:
                room += freed
                if room >= units:
                    return turn
        return NEVER

    def in_reach(self, agent: int, units: int) -> tuple[list[Seat], int]:
        """Who would leave, in turn, until there is the room, and what is short of it then: 0, or less than that."""
        short = units - self.free[agent]
        found: list[Seat] = []
        for seat in self._on[agent]:
            if short <= 0:
                break
            if seat[0] not in self.gone:
                found.append(seat)
                short -= seat[2]
        return found, short

    def _seats_of(self, leaving: Sequence[Running]) -> list[Seat]:
        """What they leave on open agents; slots that were disabled under them come back to nobody."""
        index, slotless = self._open, not self._has_slots
        seats = [
            (turn, index[agent], slots or 1)
            for turn, running in enumerate(leaving, start=1)
            for agent, slots in running.placements
            if agent in index and (slots or slotless)
        ]
        seats.sort()  # the agents of a gang
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
        self._seat = 0  # where that is among the seats, from turn 1 on
        self._behind: list[Entry] = []
        if units > max(room.total, default=0):
            self._end()

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
            entry = self._meet()
        return entry if entry[0] <= room.limit else None

    def first_with_room(self) -> int | None:
        """The same, if nobody has to leave."""
        turn, start = self._at
        if not turn and not self._behind and not self._size:
            free, units = self._room.free, self._units
            for agent in range(start, len(free)):
                if free[agent] >= units:
                    self._at = (0, agent)
                    return agent
            self._at = (1, 0)
            return None
        entry = self.first()
        return None if entry is None or entry[0] else entry[1]

    def first_of(self, count: int, blocked: Collection[int]) -> list[Entry]:
        """Up to `count` agents with the smallest turns within the limit."""
        found: dict[int, int] = {}
        passed_over: dict[int, int] = {}
        while len(found) < count and (entry := self.first()) is not None:
            if entry is self._at:
                self._pass()
            else:
                heappop(self._behind)
            turn, agent = entry
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

    def _pass(self) -> None:
        turn, agent = self._at
        self._at = (turn, agent + 1)
        self._seat += turn > 0

    def _meet(self) -> Entry:
        """Go on to the next agent whose turn it is."""
        free, units, size, total = self._room.free, self._units, self._size, self._room.total
        turn, start = self._at
        if turn == 0:
            for agent in range(start, len(free)):
                if free[agent] >= units and size in (0, total[agent]):
                    self._at = (0, agent)
                    return self._at
            self._at = (1, 0)
        return self._meet_later()

    def _meet_later(self) -> Entry:
        room, units, size = self._room, self._units, self._size
        seats, gone, free, total, limit = room.seats, room.gone, room.free, room.total, room.limit
        for at in range(self._seat, len(seats)):
            turn, agent, _ = seats[at]
            if turn > limit:
                break
            if turn in gone or free[agent] >= units or (size and total[agent] != size):
                continue  # without the price of a call
            if room.turn(agent, units) == turn:
                self._at, self._seat = (turn, agent), at
                return self._at
        return self._end()  # for good: the limit only shrinks

    def _end(self) -> Entry:
        self._at, self._seat = _END, len(self._room.seats)
        return _END
