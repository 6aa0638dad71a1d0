"""Slots: on one agent that others share, or on wholly free agents."""

from bisect import insort
from collections import defaultdict

from .fleet import Fit, Fleet, Roster
from .model import Request
from .nearness import Shelf, by_distance, discard, distance, nearest

ShelfKey = tuple[float, int]  # rank (lower is better), free slots


class SlotFleet(Fleet):
    has_slots = True

    def __init__(self, roster: Roster) -> None:
        super().__init__(roster)
        self.total = [a.slots for a in self.agents]
        self.used = [a.used for a in self.agents]
        self.free = [
            a.slots - a.used if is_open and a.slots > a.used else 0
            for a, is_open in zip(self.agents, self.open, strict=True)
        ]
        self._shelves: defaultdict[ShelfKey, Shelf] = defaultdict(list)
        self._whole: defaultdict[int, Shelf] = defaultdict(list)
        free, used, total, tokens = self.free, self.used, self.total, self.tokens
        for i in roster.by_token:
            if empty := free[i]:
                rank = empty if self.best else -empty / total[i]
                self._shelves[rank, empty].append(tokens[i])
                if not used[i]:
                    self._whole[total[i]].append(tokens[i])
        self._order = sorted(self._shelves)

    def take(self, fit: Fit) -> None:
        for agent, slots in fit:
            self._unshelve(agent)
            self.free[agent] -= slots
            self.used[agent] += slots
            if self.free[agent]:
                key = self._key(agent)
                if key not in self._shelves:
                    insort(self._order, key)
                insort(self._shelves[key], self.tokens[agent])

    def _key(self, agent: int) -> ShelfKey:
        free = self.free[agent]
        return (free if self.best else -free / self.total[agent], free)

    def _unshelve(self, agent: int) -> None:
        if self.free[agent]:
            discard(self._shelves[self._key(agent)], self.tokens[agent])
            if not self.used[agent]:
                discard(self._whole[self.total[agent]], self.tokens[agent])

    def _fit(self, request: Request, target: int, blocked: frozenset[int]) -> Fit | None:
        agent = self._shared(request.slots, target, blocked)
        if agent is not None:
            return [(agent, request.slots)]
        if request.slots <= 1 or request.single_agent:
            return None
        return self._dedicated(request.slots, target, blocked)

    def _shared(self, slots: int, target: int, blocked: frozenset[int]) -> int | None:
        best_rank: float | None = None
        found: list[int] = []
        for key in self._order:
            rank, free = key
            if best_rank is not None and rank != best_rank:
                break
            if free >= slots and self._shelves[key]:
                agent = nearest(self._shelves[key], target, blocked)
                if agent is not None:
                    best_rank = rank
                    found.append(agent)
        if len(found) < 2:
            return found[0] if found else None
        return min(found, key=lambda i: (distance(target, self.tokens[i]), i))

    def _dedicated(self, slots: int, target: int, blocked: frozenset[int]) -> Fit | None:
        sizes = sorted((size for size, shelf in self._whole.items() if shelf), reverse=True)
        for size in sizes:
            count, rest = divmod(slots, size)
            if rest or len(self._whole[size]) < count:
                continue
            near = by_distance(self._whole[size], target, blocked)
            fit = [(agent, size) for _, agent in zip(range(count), near, strict=False)]
            if len(fit) == count:
                return fit
        if not self.mixes_sizes:
            return None
        whole = [a for size in sizes for a in by_distance(self._whole[size], target, blocked)]
        return greedy_mix([(a, self.total[a]) for a in whole], slots)


def greedy_mix(agents: Fit, slots: int) -> Fit | None:
    """Whole agents of several sizes, biggest first without going back; the last may keep slots free."""
    fit: Fit = []
    skipped: Fit = []
    for agent, size in agents:
        if size <= slots:
            fit.append((agent, size))
            slots -= size
        else:
            skipped.append((agent, size))
        if not slots:
            return fit
    # Every agent left over is bigger than the rest; the smallest wastes least.
    return [*fit, (skipped[-1][0], slots)] if skipped else None
