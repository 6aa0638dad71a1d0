"""Containers without slots: each agent takes a limited number of them."""

from bisect import insort
from collections import defaultdict

from .fleet import Fit, Fleet, Roster
from .model import Request
from .nearness import Shelf, discard, nearest


class AuxFleet(Fleet):
    has_slots = False

    def __init__(self, roster: Roster) -> None:
        super().__init__(roster)
        self.total = [a.aux_limit for a in self.agents]
        self.free = [
            a.aux_limit - a.aux_used if is_open and a.aux_limit > a.aux_used else 0
            for a, is_open in zip(self.agents, self.open, strict=True)
        ]
        self._slots_work = [a.used > 0 < a.slots for a in self.agents]
        self._ranks = self._first_ranks()
        self._shelves: defaultdict[float, Shelf] = defaultdict(list)
        free, ranks, shelves, tokens = self.free, self._ranks, self._shelves, self.tokens
        for i in roster.by_token:
            if free[i]:
                shelves[ranks[i]].append(tokens[i])
        self._order = sorted(self._shelves)

    def take(self, fit: Fit) -> None:
        for agent, _ in fit:
            self.free[agent] -= 1
            if self._slots_work[agent] and self.free[agent]:
                continue
            discard(self._shelves[self._ranks[agent]], self.tokens[agent])
            if self.free[agent]:
                self._ranks[agent] = after = self._rank(agent)
                if after not in self._shelves:
                    insort(self._order, after)
                insort(self._shelves[after], self.tokens[agent])

    def _first_ranks(self) -> list[float]:
        """Agents whose slots work are compared by their empty slots, the others by their spare containers."""
        spare: list[float] = [
            (a.slots - a.used if a.slots > a.used else 0) if works else free
            for a, works, free in zip(self.agents, self._slots_work, self.free, strict=True)
        ]
        if self.best:
            return spare
        limits = [
            a.slots if works else a.aux_limit
            for a, works in zip(self.agents, self._slots_work, strict=True)
        ]
        return [-s / max(1, limit) for s, limit in zip(spare, limits, strict=True)]

    def _rank(self, agent: int) -> float:
        free = self.free[agent]
        return free if self.best else -free / self.total[agent]

    def _unshelve(self, agent: int) -> None:
        if self.free[agent]:
            discard(self._shelves[self._ranks[agent]], self.tokens[agent])

    def _fit(self, request: Request, target: int, blocked: frozenset[int]) -> Fit | None:
        shelves = self._shelves
        for rank in self._order:
            if shelf := shelves[rank]:
                agent = nearest(shelf, target, blocked)
                if agent is not None:
                    return [(agent, 0)]
        return None
