"""Agents in the order of how many victims have to leave before they have the room."""

from collections.abc import Collection, Iterator
from itertools import islice

from .future_room import NEVER, FutureRoom

Entry = tuple[int, int]  # depth, agent


class AgentsByDepth:
    """The agents with room for so many units; where they are needed whole, only those of that size.

    The search starts where the last one found its first agent: what was passed over has less room since, or has gained
    room and been reported.
    """

    def __init__(self, room: FutureRoom, units: int, *, whole: bool) -> None:
        self._room = room
        self._units = units
        self._whole = whole
        self._first_agent = 0  # no agent before it has the room at once
        self._first_depth = 1  # no victim before it makes the room
        if units > max(room.total, default=0):
            self._first_depth = NEVER

    def gained(self, agent: int) -> None:
        """Search an agent again."""
        self._first_agent = min(self._first_agent, agent)
        self._first_depth = min(self._first_depth, self._room.first_depth_on(agent))

    def with_room(self) -> int | None:
        """Return the first agent that has the room at once; it may be shared with others."""
        free, units = self._room.free, self._units
        for agent in range(self._first_agent, len(free)):
            if free[agent] >= units:
                self._first_agent = agent
                return agent
        self._first_agent = len(free)
        return None

    def first_of(self, count: int, blocked: Collection[int]) -> list[Entry]:
        """Return up to `count` agents that are not blocked, with the smallest depths within the limit."""
        return list(islice(self.unblocked(blocked), count))

    def unblocked(self, blocked: Collection[int]) -> Iterator[Entry]:
        """Yield the agents that are not blocked, the smallest depths first."""
        return (entry for entry in self if entry[1] not in blocked)

    def __iter__(self) -> Iterator[Entry]:
        room, units, total, any_size = self._room, self._units, self._room.total, not self._whole
        found = False
        for agent in range(self._first_agent, len(room.free)):
            if room.free[agent] >= units and (any_size or total[agent] == units):
                if not found:
                    self._first_agent, found = agent, True
                yield 0, agent
        if not found:
            self._first_agent = len(room.free)
        for depth in range(self._first_depth, room.limit + 1):
            for agent in room.agents_of[depth] if depth not in room.gone else ():
                if room.depth(agent, units) == depth and (any_size or total[agent] == units):
                    if not found:
                        self._first_depth, found = depth, True
                    yield depth, agent
        if not found:
            self._first_depth = room.limit + 1
