"""The free units of a pool's agents, and the agents that a request gets.

Slots and containers without slots are two fleets, because they are scheduled independently of each other. Agents of the
same size with the same number of free units form a shelf, so a fit looks at a few shelves instead of at every agent.
"""

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby

from .free_slots import FreeSlots
from .gangs import by_place, first_together, mix_sizes
from .held_data import HeldData
from .links import Score
from .model import Agent, Fit, FittingPolicy, SlotRequest
from .tie_break import EqualAgents, TieBreak

Shelf = tuple[int, int]  # the free units of each of its agents, and their size
Rank = tuple[float, int]  # the lowest is preferred; agents of equal rank are compared by hash
NONE_BLOCKED: frozenset[int] = frozenset()


class Roster:
    """The agents of a pool with everything that does not change while requests are placed."""

    def __init__(
        self,
        agents: Sequence[Agent],
        ties: TieBreak,
        *,
        fitting_policy: FittingPolicy,
        mixes_sizes: bool,
    ) -> None:
        self.agents = agents
        self.index = {agent.id: index for index, agent in enumerate(agents)}
        self.open = [agent.is_open for agent in agents]
        self.places = [agent.place for agent in agents]
        self.zones = [f"{agent.place} {agent.zone}" for agent in agents]
        self.held = HeldData(agents)
        self.ties = ties
        self.by_hash = sorted(zip(ties.hashes, range(len(agents)), strict=True))
        self.is_best_fit = fitting_policy == "best"
        self.mixes_sizes = mixes_sizes
        self._others: dict[str, frozenset[int]] = {"": NONE_BLOCKED}

    def of_other_capacity(self, capacity: str) -> frozenset[int]:
        """Return the rented agents that requests for a capacity must not use."""
        if capacity not in self._others:
            self._others[capacity] = frozenset(
                index
                for index, agent in enumerate(self.agents)
                if agent.capacity and agent.capacity != capacity
            )
        return self._others[capacity]


class Fleet(ABC):
    """The free units of each agent: slots, or containers without slots."""

    def __init__(self, roster: Roster, total: list[int], used: list[int]) -> None:
        self.roster = roster
        self.agents = roster.agents
        self.total = total
        self.free = [
            total - used if is_open and total > used else 0
            for total, used, is_open in zip(total, used, roster.open, strict=True)
        ]
        self._hashes = roster.ties.hashes
        self._held: set[int] = set()
        self._shelves: dict[Shelf, EqualAgents] = {}
        # The same shelves, the preferred first. A shelf stays when its last agent leaves it.
        self._ranked: list[tuple[Rank, Shelf, EqualAgents]] = []
        for hash, agent in roster.by_hash:
            if self.free[agent]:
                key = self._key(agent)
                shelf = self._shelves.get(key)
                if shelf is None:
                    shelf = self._add_shelf(key)
                shelf.append(agent, hash)

    @abstractmethod
    def _key(self, agent: int) -> Shelf: ...

    @abstractmethod
    def fit(self, request: SlotRequest) -> Fit | None:
        """Return the agents on which a request can start now, or None."""

    def place_of(self, part: tuple[int, int]) -> str:
        """Return the place of a part of a fit."""
        return self.roster.places[part[0]]

    def zone_of(self, part: tuple[int, int]) -> str:
        """Return the place and the zone of a part of a fit."""
        return self.roster.zones[part[0]]

    def agent_ids(self, fit: Fit) -> tuple[str, ...]:
        return tuple([self.agents[agent].id for agent, _ in fit])

    def blocked(self, request: SlotRequest) -> frozenset[int]:
        """Return the agents that a request must not use."""
        if not request.blocked_agents and not request.capacity:
            return NONE_BLOCKED
        index = self.roster.index
        blocked = frozenset(index[id] for id in request.blocked_agents if id in index)
        return blocked | self.roster.of_other_capacity(request.capacity)

    def take(self, fit: Fit) -> None:
        """Use the units of a fit."""
        for agent, slots in fit:
            before = self._key(agent)
            self.free[agent] -= slots or 1
            if not self.free[agent]:
                self._shelves[before].remove(agent, self._hashes[agent])
                continue
            after = self._key(agent)
            if after != before:
                self._shelves[before].remove(agent, self._hashes[agent])
                shelf = self._shelves.get(after)
                if shelf is None:
                    shelf = self._add_shelf(after)
                shelf.add(agent, self._hashes[agent])

    def hold(self, agent: int) -> None:
        """Stop placing work on an agent. Its free units still count as free."""
        if agent not in self._held:
            self._held.add(agent)
            if self.free[agent]:
                self._shelves[self._key(agent)].remove(agent, self._hashes[agent])

    def _rank(self, shelf: Shelf) -> Rank:
        spare, capacity = shelf
        preference = self._preference(capacity)
        return (spare, preference) if self.roster.is_best_fit else (-spare / capacity, -preference)

    def _preference(self, capacity: int) -> int:
        """Return the rank of a size among agents that the fitting policy likes equally."""
        return 0

    def _add_shelf(self, key: Shelf) -> EqualAgents:
        shelf = self._shelves[key] = EqualAgents()
        insort(self._ranked, (self._rank(key), key, shelf))
        return shelf

    def holds(self, request: SlotRequest, fit: Fit) -> str:
        """Return which agents of a fit hold data sets of its request. Call it before `take`."""
        sources = request.data_sets
        if not sources or self.roster.held.is_empty:
            return ""
        agents = [agent for agent, _ in fit]
        is_choice = len(fit) == 1 and self._could_hold_less(request, fit[0][0])
        return self.roster.held.sentence(agents, sources, is_choice=is_choice)

    def _could_hold_less(self, request: SlotRequest, agent: int) -> bool:
        """Return whether another agent of the shelf holds fewer bytes."""
        held, blocked = self.roster.held, self.blocked(request)
        most = held.bytes_on(agent, request.data_sets)
        return any(
            held.bytes_on(other, request.data_sets) < most
            for other in self._shelves[self._key(agent)].agents()
            if other not in blocked
        )

    def _choose(
        self, units: int, target: int, blocked: Collection[int], sources: Sequence[str] = ()
    ) -> int | None:
        """Return the agent that the fitting policy prefers among agents with enough free units.

        Of the agents on its shelf, the one that holds the most bytes of `sources` is returned."""
        agent = self._prefer(units, target, blocked)
        if agent is None or not sources or self.roster.held.is_empty:
            return agent
        near = self._shelves[self._key(agent)].nearest_first(target, blocked)
        return next(agent for _, agent in self._most_data_first(near, sources))

    def _prefer(self, units: int, target: int, blocked: Collection[int]) -> int | None:
        nearest, chosen_rank = None, None
        for rank, (spare, _), shelf in self._ranked:
            if nearest is not None and rank != chosen_rank:
                break
            if spare >= units and shelf:
                candidate = shelf.nearest(target, blocked)
                if candidate is not None and (nearest is None or candidate < nearest):
                    nearest, chosen_rank = candidate, rank
        return None if nearest is None else nearest[1]

    def _holds_more(self, agent: int, other: int, sources: Sequence[str]) -> bool:
        """Return whether an agent holds more bytes than another one of the same shelf."""
        held = self.roster.held
        if not sources or held.is_empty or self._key(agent) != self._key(other):
            return False
        return held.bytes_on(agent, sources) > held.bytes_on(other, sources)

    def _most_data_first(
        self, agents: Iterable[tuple[int, int]], sources: Sequence[str]
    ) -> Iterable[tuple[int, int]]:
        """Sort agents by the bytes that they hold. Equal ones keep their order."""
        held = self.roster.held
        if not sources or held.is_empty:
            return agents
        return sorted(agents, key=lambda near: -held.bytes_on(near[1], sources))


class SlotFleet(Fleet):
    """Slots: some of one agent, or all of several agents."""

    def __init__(self, roster: Roster) -> None:
        agents = roster.agents
        super().__init__(roster, [a.slots for a in agents], [a.used for a in agents])
        self.free_slots = FreeSlots(agents)

    def take_slots(self, fit: Fit) -> tuple[tuple[int, ...], ...]:
        """Use the slots of a fit. Return the numbers of the slots on each agent, which have the best links."""
        self.take(fit)
        return tuple([self.free_slots.take(agent, slots) for agent, slots in fit])

    def _key(self, agent: int) -> Shelf:
        return self.free[agent], self.total[agent]

    def _preference(self, capacity: int) -> int:
        return self.roster.ties.preference(capacity)

    def fit(self, request: SlotRequest) -> Fit | None:
        """Return one agent with enough free slots, else wholly free agents, or None.

        An elastic gang gets the largest number of slots that fits."""
        fit = self._fit_slots(request, request.slots)
        least = request.least_slots
        if fit is not None or least == request.slots:
            return fit
        most = min(request.slots - 1, sum(self.free))
        fits = (self._fit_slots(request, slots) for slots in range(most, least - 1, -1))
        return next(filter(None, fits), None)

    def _fit_slots(self, request: SlotRequest, slots: int) -> Fit | None:
        blocked = self.blocked(request)
        target = self.roster.ties.target(request.allocation_id)
        if slots > 1 and self.free_slots.any_links:
            agent = self._best_connected(request, slots, target, blocked)
        else:
            agent = self._choose(slots, target, blocked, request.data_sets)
        if agent is not None:
            return [(agent, slots)]
        if slots == 1 or request.single_agent:
            return None
        if request.strict_topology and self._could_be_one_agent(slots, blocked):
            return None
        one_zone = request.strict_topology
        return self._fit_gang(slots, target, blocked, request.data_sets, one_zone=one_zone)

    def _best_connected(
        self, request: SlotRequest, slots: int, target: int, blocked: Collection[int]
    ) -> int | None:
        """Return the agent with the best connected free slots. The fitting policy decides between equal ones, and data
        sets between those of a shelf."""
        best: tuple[Score, int] | None = None
        for agent in self._in_preferred_order(slots, target, blocked):
            score = self.free_slots.score(agent, slots)
            best_class = self.free_slots.best_class(agent, slots)
            if request.strict_topology and score.weakest_class < best_class:
                continue
            if best is None or score[:2] > best[0][:2]:
                best = score, agent
                continue
            is_equal = score[:2] == best[0][:2]
            if is_equal and self._holds_more(agent, best[1], request.data_sets):
                best = score, agent
        return best and best[1]

    def _could_be_one_agent(self, slots: int, blocked: Collection[int]) -> bool:
        """Return whether a free agent could hold so many slots, which links them better than a gang."""
        totals = zip(self.total, self.roster.open, strict=True)
        return any(
            total >= slots and is_open and agent not in blocked
            for agent, (total, is_open) in enumerate(totals)
        )

    def _in_preferred_order(
        self, units: int, target: int, blocked: Collection[int]
    ) -> Iterator[int]:
        """Yield the agents with enough free units in the order of the fitting policy."""
        for _, shelves in groupby(self._ranked, key=lambda ranked: ranked[0]):
            near = (
                s.nearest_first(target, blocked) for _, (free, _), s in shelves if free >= units
            )
            yield from (agent for _, agent in sorted(chain.from_iterable(near)))

    def whole_agents(self, size: int) -> Iterator[int]:
        """Yield the wholly free agents of a size."""
        shelf = self._shelves.get((size, size))
        return iter(()) if shelf is None else shelf.agents()

    def whole_sizes(self) -> list[int]:
        """Return the sizes of the wholly free agents, the biggest first."""
        whole = (size for (free, size), shelf in self._shelves.items() if free == size and shelf)
        return sorted(whole, reverse=True)

    def _fit_gang(
        self,
        slots: int,
        target: int,
        blocked: Collection[int],
        sources: Sequence[str],
        *,
        one_zone: bool,
    ) -> Fit | None:
        """Return wholly free agents of one place: of one size, or of several if the pool allows it.

        Agents of one zone are preferred, and required with `one_zone`."""
        spans = (self.zone_of,) if one_zone else (self.zone_of, self.place_of)
        sizes = self.whole_sizes()
        for size in sizes:
            count, rest = divmod(slots, size)
            if not rest and count <= len(self._shelves[size, size]):
                near = self._shelves[size, size].nearest_first(target, blocked)
                parts = [(agent, size) for _, agent in self._most_data_first(near, sources)]
                fits = (first_together(parts, count, span) for span in spans)
                fit = next(filter(None, fits), None)
                if fit:
                    return sorted(fit)
        if not self.roster.mixes_sizes:
            return None
        whole = [
            (agent, size)
            for size in sizes
            for _, agent in self._most_data_first(
                self._shelves[size, size].nearest_first(target, blocked), sources
            )
        ]
        groups = [group for span in spans for group in by_place(whole, span)]
        mixes = (mix_sizes(group, slots) for group in groups)
        mix = next((mix for mix in mixes if mix), None)
        return mix and sorted(mix, key=lambda part: (-part[1], part[0]))


class AuxFleet(Fleet):
    """Containers without slots: each agent takes a limited number of them."""

    def __init__(self, roster: Roster) -> None:
        agents = roster.agents
        # An agent with running work is compared by its free slots, any other agent by its free containers.
        self._slots = [
            (max(0, a.slots - a.used), a.slots) if a.used > 0 < a.slots else None for a in agents
        ]
        super().__init__(roster, [a.aux_limit for a in agents], [a.aux_used for a in agents])

    def _key(self, agent: int) -> Shelf:
        return self._slots[agent] or (self.free[agent], self.total[agent])

    def fit(self, request: SlotRequest) -> Fit | None:
        target = self.roster.ties.target(request.allocation_id)
        agent = self._choose(0, target, self.blocked(request), request.data_sets)
        return None if agent is None else [(agent, 0)]
