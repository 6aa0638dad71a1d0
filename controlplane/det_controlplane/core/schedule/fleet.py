"""The agents of a pool during one pass: what is still free, and which agents a request gets.

Slots and containers without slots are two fleets, because they are scheduled independently of each other. Agents with
equally much to spare stand on one shelf, so that a fit looks at a few shelves instead of at every agent.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable
from operator import attrgetter

from .model import Agent, PoolSettings, Request
from .places import by_place, first_together
from .tie_break import EqualAgents, agent_hash, tie_hash

# The agents chosen for a request, as indices into `Fleet.agents`, each with the slots taken there.
Fit = list[tuple[int, int]]
ShelfKey = tuple[int, int]  # what each of its agents has to spare, and out of how much


class PoolAgents:
    """The agents of a pool, and what does not change within a pass."""

    def __init__(self, agents: Iterable[Agent], settings: PoolSettings) -> None:
        self.settings = settings
        self.agents = sorted(agents, key=attrgetter("id"))
        self.index = {agent.id: index for index, agent in enumerate(self.agents)}
        self.open = [agent.is_open for agent in self.agents]
        self.places = [agent.place for agent in self.agents]
        self.hashes = [agent_hash(agent.id) for agent in self.agents]
        self.by_hash = sorted(zip(self.hashes, range(len(self.agents)), strict=True))


class Fleet(ABC):
    """Free units of each agent. A unit is a slot, or a container without slots."""

    def __init__(self, roster: PoolAgents, total: list[int], used: list[int]) -> None:
        self.agents = roster.agents
        self.index = roster.index
        self.open = roster.open
        self.places = roster.places
        self.total = total
        self.free = [
            max(0, total - used) if is_open else 0
            for total, used, is_open in zip(total, used, roster.open, strict=True)
        ]
        self.mixes_sizes = roster.settings.allow_heterogeneous_fits
        self._best_fit = roster.settings.fitting_policy == "best"
        self._hashes = roster.hashes
        self._held: set[int] = set()
        self._shelves: defaultdict[ShelfKey, EqualAgents] = defaultdict(EqualAgents)
        for hash, agent in roster.by_hash:
            if self.free[agent]:
                self._shelves[self._key(agent)].append(agent, hash)

    @abstractmethod
    def _key(self, agent: int) -> ShelfKey: ...

    @abstractmethod
    def fit(self, request: Request) -> Fit | None:
        """Return the agents on which a request can start now, or None."""

    def place_of(self, part: tuple[int, int]) -> str:
        """Return the place of an agent that is given with its slots."""
        return self.places[part[0]]

    def blocked(self, request: Request) -> frozenset[int]:
        if not request.blocked_agents:
            return frozenset()
        return frozenset(self.index[id] for id in request.blocked_agents if id in self.index)

    def take(self, fit: Fit) -> None:
        for agent, slots in fit:
            before = self._key(agent)
            self.free[agent] -= slots or 1
            after = self._key(agent)
            if not self.free[agent] or after != before:
                self._unshelve(agent, before)
                if self.free[agent]:
                    self._shelves[after].add(agent, self._hashes[agent])

    def hold(self, agent: int) -> None:
        """Let nothing more start on an agent in this pass."""
        if agent not in self._held:
            self._held.add(agent)
            if self.free[agent]:
                self._unshelve(agent, self._key(agent))

    def _unshelve(self, agent: int, key: ShelfKey) -> None:
        self._shelves[key].remove(agent, self._hashes[agent])
        if not self._shelves[key]:
            del self._shelves[key]

    def _choose(
        self, keys: Iterable[ShelfKey], target: int, blocked: Collection[int]
    ) -> int | None:
        """Return the agent that the fitting policy prefers on these shelves."""
        choices = []
        for spare, capacity in keys:
            rank = spare if self._best_fit else -spare / capacity
            found = self._shelves[spare, capacity].nearest(target, blocked)
            if found is not None:
                choices.append((rank, *found))
        return min(choices)[2] if choices else None


class SlotFleet(Fleet):
    """Slots: on one agent that others share, or on wholly free agents."""

    def __init__(self, roster: PoolAgents) -> None:
        agents = roster.agents
        super().__init__(roster, [a.slots for a in agents], [a.used for a in agents])

    def _key(self, agent: int) -> ShelfKey:
        return self.free[agent], self.total[agent]

    def fit(self, request: Request) -> Fit | None:
        slots, target, blocked = (
            request.slots,
            tie_hash(request.allocation_id),
            self.blocked(request),
        )
        agent = self._choose([key for key in self._shelves if key[0] >= slots], target, blocked)
        if agent is not None:
            return [(agent, slots)]
        if slots == 1 or request.single_agent:
            return None
        gang = self._fit_gang(slots, target, blocked)
        return gang and sorted(gang, key=lambda part: (-part[1], part[0]))

    def _fit_gang(self, slots: int, target: int, blocked: Collection[int]) -> Fit | None:
        """Return wholly free agents of one place, of one size or of several where the pool allows it."""
        sizes = sorted((size for free, size in self._shelves if free == size), reverse=True)
        for size in sizes:
            count, rest = divmod(slots, size)
            if not rest:
                near = self._shelves[size, size].nearest_first(target, blocked)
                fit = first_together(((agent, size) for _, agent in near), count, self.place_of)
                if fit:
                    return fit
        if not self.mixes_sizes:
            return None
        whole = [
            (agent, size)
            for size in sizes
            for _, agent in self._shelves[size, size].nearest_first(target, blocked)
        ]
        mixes = (greedy_mix(together, slots) for together in by_place(whole, self.place_of))
        return next(filter(None, mixes), None)


class AuxFleet(Fleet):
    """Containers without slots: each agent takes a limited number of them."""

    def __init__(self, roster: PoolAgents) -> None:
        agents = roster.agents
        # Agents whose slots work are compared by their empty slots, the others by their spare containers.
        self._slots = [
            (max(0, a.slots - a.used), a.slots) if a.used > 0 < a.slots else None for a in agents
        ]
        super().__init__(roster, [a.aux_limit for a in agents], [a.aux_used for a in agents])

    def _key(self, agent: int) -> ShelfKey:
        return self._slots[agent] or (self.free[agent], self.total[agent])

    def fit(self, request: Request) -> Fit | None:
        agent = self._choose(self._shelves, tie_hash(request.allocation_id), self.blocked(request))
        return None if agent is None else [(agent, 0)]


def greedy_mix(agents: Fit, slots: int) -> Fit | None:
    """Return agents of several sizes, whole except perhaps the last: biggest first, without going back."""
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
