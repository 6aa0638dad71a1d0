"""The agents of a pool during one pass: what is still free, and which agents a request gets.

Agents with equal scores stand on one shelf, so a fit looks at a few shelves instead of at every agent. Slots and
containers without slots are two fleets: they are scheduled independently of each other.
"""

from abc import ABC, abstractmethod
from bisect import insort

from .model import Agent, PoolSettings, Request
from .nearness import Shelf, by_distance, discard, distance, nearest, tie_hash, token_of

# The seats of a request: agent indices with the units taken on each.
Fit = list[tuple[int, int]]
NOT_BLOCKED: frozenset[int] = frozenset()
ShelfKey = tuple[float, int]  # rank (lower is better), free slots


def shape_of(request: Request) -> object:
    """Requests of one shape fit or fail together, because nothing becomes free within a pass."""
    slots = -request.slots if request.single_agent else request.slots
    return (slots, request.blocked_agents) if request.blocked_agents else slots


class Fleet(ABC):
    """`free` and `total` count units: slots, or containers without slots."""

    def __init__(self, agents: tuple[Agent, ...], settings: PoolSettings) -> None:
        self.agents = sorted(agents, key=lambda a: a.id)
        self.index = {a.id: i for i, a in enumerate(self.agents)}
        self.open = [a.enabled and not a.draining for a in self.agents]
        self.best = settings.fitting_policy == "best"
        self.mixes_sizes = settings.allow_heterogeneous_fits
        self.free: list[int] = []
        self.total: list[int] = []
        self.tokens = [token_of(a.id, i) for i, a in enumerate(self.agents)]
        self.held: set[int] = set()

    def fit(self, request: Request) -> Fit | None:
        """The seats of a request that starts now, or None."""
        blocked = self.blocked(request) if request.blocked_agents else NOT_BLOCKED
        return self._fit(request, tie_hash(request.allocation_id), blocked)

    def blocked(self, request: Request) -> frozenset[int]:
        return frozenset(self.index[i] for i in request.blocked_agents if i in self.index)

    def hold(self, agent: int) -> None:
        """Nothing more starts here in this pass."""
        if agent not in self.held:
            self._unshelve(agent)
            self.held.add(agent)

    @abstractmethod
    def take(self, fit: Fit) -> None: ...

    @abstractmethod
    def _fit(self, request: Request, target: int, blocked: frozenset[int]) -> Fit | None: ...

    @abstractmethod
    def _unshelve(self, agent: int) -> None: ...


class SlotFleet(Fleet):
    def __init__(self, agents: tuple[Agent, ...], settings: PoolSettings) -> None:
        super().__init__(agents, settings)
        self.total = [a.slots for a in self.agents]
        self.used = [a.used for a in self.agents]
        self.free = [
            max(0, a.slots - a.used) if is_open else 0
            for a, is_open in zip(self.agents, self.open, strict=True)
        ]
        self._shelves: dict[ShelfKey, Shelf] = {}
        self._whole: dict[int, Shelf] = {}
        for i, free in enumerate(self.free):
            if free:
                self._shelves.setdefault(self._key(i), []).append(self.tokens[i])
                if not self.used[i]:
                    self._whole.setdefault(self.total[i], []).append(self.tokens[i])
        for shelf in (*self._shelves.values(), *self._whole.values()):
            shelf.sort()
        self._order = sorted(self._shelves)

    def take(self, fit: Fit) -> None:
        for agent, slots in fit:
            self._unshelve(agent)
            self.free[agent] -= slots
            self.used[agent] += slots
            if self.free[agent]:
                key = self._key(agent)
                if key not in self._shelves:
                    self._shelves[key] = []
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


class AuxFleet(Fleet):
    def __init__(self, agents: tuple[Agent, ...], settings: PoolSettings) -> None:
        super().__init__(agents, settings)
        self.total = [a.aux_limit for a in self.agents]
        self.free = [
            max(0, a.aux_limit - a.aux_used) if is_open else 0
            for a, is_open in zip(self.agents, self.open, strict=True)
        ]
        self._shelves: dict[float, Shelf] = {}
        for i, free in enumerate(self.free):
            if free:
                self._shelves.setdefault(self._rank(i), []).append(self.tokens[i])
        for shelf in self._shelves.values():
            shelf.sort()

    def take(self, fit: Fit) -> None:
        for agent, _ in fit:
            before = self._rank(agent)
            self.free[agent] -= 1
            if self.free[agent] and self._rank(agent) == before:
                continue
            discard(self._shelves[before], self.tokens[agent])
            if self.free[agent]:
                insort(self._shelves.setdefault(self._rank(agent), []), self.tokens[agent])

    def _rank(self, i: int) -> float:
        """Agents whose slots work are compared by their empty slots, the others by their spare containers."""
        agent = self.agents[i]
        if agent.used and agent.slots:
            empty = max(0, agent.slots - agent.used)
            return empty if self.best else -empty / agent.slots
        return self.free[i] if self.best else -self.free[i] / agent.aux_limit

    def _unshelve(self, agent: int) -> None:
        if self.free[agent]:
            discard(self._shelves[self._rank(agent)], self.tokens[agent])

    def _fit(self, request: Request, target: int, blocked: frozenset[int]) -> Fit | None:
        for rank in sorted(self._shelves):
            agent = nearest(self._shelves[rank], target, blocked)
            if agent is not None:
                return [(agent, 0)]
        return None


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
