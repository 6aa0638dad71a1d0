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
            max(0, a.aux_limit - a.aux_used) if is_open else 0
            for a, is_open in zip(self.agents, self.open, strict=True)
        ]
        self._slots_work = [a.used > 0 < a.slots for a in self.agents]
        self._shelves: defaultdict[float, Shelf] = defaultdict(list)
        for i in roster.by_token:
            if self.free[i]:
                self._shelves[self._rank(i)].append(self.tokens[i])
        self._order = sorted(self._shelves)

    def take(self, fit: Fit) -> None:
        for agent, _ in fit:
            if self._slots_work[agent] and self.free[agent] > 1:
                self.free[agent] -= 1
                continue
            before = self._rank(agent)
            self.free[agent] -= 1
            if self.free[agent]:
                after = self._rank(agent)
                if after not in self._shelves:
                    insort(self._order, after)
                insort(self._shelves[after], self.tokens[agent])
            discard(self._shelves[before], self.tokens[agent])

    def _rank(self, i: int) -> float:
        """Agents whose slots work are compared by their empty slots, the others by their spare containers."""
        agent = self.agents[i]
        if self._slots_work[i]:
            empty = max(0, agent.slots - agent.used)
            return empty if self.best else -empty / agent.slots
        return self.free[i] if self.best else -self.free[i] / agent.aux_limit

    def _unshelve(self, agent: int) -> None:
        if self.free[agent]:
            discard(self._shelves[self._rank(agent)], self.tokens[agent])

    def _fit(self, request: Request, target: int, blocked: frozenset[int]) -> Fit | None:
        for rank in self._order:
            shelf = self._shelves[rank]
            agent = nearest(shelf, target, blocked) if shelf else None
            if agent is not None:
                return [(agent, 0)]
        return None
