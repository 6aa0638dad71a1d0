"""Place demand as the scheduler would: on free slots of machines that work, start or are about to be rented."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from det_controlplane.core.placement.gangs import by_place, first_together, mix_sizes

from .model import Demand, FittingPolicy
from .offers import Offer

Key = tuple[int, int]  # the free slots of a machine, and all its slots


class Host(NamedTuple):
    """A machine with room. `id` is empty for one that is yet to be rented."""

    id: str
    offer: Offer
    slots: int
    used: int
    aux_free: int


class Room:
    """Free slots, taken by the fitting rules of `core.schedule`.

    Its ties depend on names of agents that do not exist yet. Of equally good machines a wholly free one is taken, so
    that what fits here fits whatever the names are.
    """

    def __init__(self, hosts: Iterable[Host], policy: FittingPolicy, mixes_sizes: bool) -> None:
        self.hosts: list[Host] = []
        self.busy: set[int] = set()  # hosts that something was placed on
        self._best_fit = policy == "best"
        self._mixes_sizes = mixes_sizes
        self._keys: list[Key] = []  # in order, those with hosts
        self._stacks: dict[Key, list[int]] = {}
        self._aux: list[int] = []  # hosts that take containers without slots, the next last
        self._aux_free: list[int] = []
        for host in hosts:
            self._add(host)
        self._aux = [i for i in reversed(range(len(self.hosts))) if self.hosts[i].aux_free > 0]
        for stack in self._stacks.values():
            stack.reverse()  # the first given are taken first

    def _add(self, host: Host) -> None:
        index = len(self.hosts)
        self.hosts.append(host)
        self._aux_free.append(host.aux_free)
        if host.slots > host.used:
            self._push((host.slots - host.used, host.slots), index)

    def place(self, demand: Demand) -> list[int] | None:
        """Take the room of a demand; return its hosts, or None where it does not fit."""
        if not demand.slots:
            return self._place_aux(demand)
        alone = self._place_alone(demand)
        if alone is not None or demand.single_agent or demand.slots == 1:
            return alone
        return self._place_gang(demand)

    def whole(self) -> Counter[tuple[str, int]]:
        """Return how many machines are wholly free, by their place and slots."""
        whole = (index for (f, t), stack in self._stacks.items() if f == t for index in stack)
        return Counter((self._place_of(index), self.hosts[index].slots) for index in whole)

    def offers_of_whole(self, place: str, size: int) -> list[Offer]:
        """Return the offers of wholly free machines of a place with so many slots."""
        offers = (self.hosts[index].offer for index in self._stacks.get((size, size), ()))
        return [offer for offer in offers if offer.place == place]

    def _place_of(self, index: int) -> str:
        return self.hosts[index].offer.place

    def _place_aux(self, demand: Demand) -> list[int] | None:
        for place in reversed(range(len(self._aux))):
            index = self._aux[place]
            if self.hosts[index].id not in demand.blocked_machines:
                self._aux_free[index] -= 1
                if not self._aux_free[index]:
                    del self._aux[place]
                self.busy.add(index)
                return [index]
        return None

    def _place_alone(self, demand: Demand) -> list[int] | None:
        for key in self._candidates(demand):
            index = self._pop(key, demand.blocked_machines)
            if index is not None:
                free, slots = key
                if free > demand.slots:
                    self._push((free - demand.slots, slots), index)
                self.busy.add(index)
                return [index]
        return None

    def _candidates(self, demand: Demand) -> list[Key]:
        first = bisect_left(self._keys, (demand.slots, 0))
        if not self._best_fit:
            return sorted(self._keys[first:], key=lambda key: (-key[0] / key[1], -key[1]))
        return self._keys[first:] if demand.blocked_machines else self._keys[first : first + 1]

    def _place_gang(self, demand: Demand) -> list[int] | None:
        blocked = demand.blocked_machines
        sizes = sorted((t for f, t in self._keys if f == t), reverse=True)
        for size in sizes:
            count, rest = divmod(demand.slots, size)
            if not rest and len(self._stacks[size, size]) >= count:
                hosts = first_together(self._open(size, blocked), count, self._place_of)
                if hosts:
                    return self._take_whole(hosts)
        if not self._mixes_sizes:
            return None
        return self._place_mixed([i for size in sizes for i in self._open(size, blocked)], demand)

    def _place_mixed(self, whole: Iterable[int], demand: Demand) -> list[int] | None:
        """Take wholly free machines of several sizes, in the first place that has enough."""
        for together in by_place(whole, self._place_of):
            mix = mix_sizes([(i, self.hosts[i].slots) for i in together], demand.slots)
            if mix is not None:
                hosts = self._take_whole([index for index, _ in mix])
                last, used = mix[-1]
                slots = self.hosts[last].slots
                if slots > used:
                    self._push((slots - used, slots), last)
                return hosts
        return None

    def _open(self, size: int, blocked: frozenset[str]) -> Iterator[int]:
        """Yield the wholly free machines with so many slots, the next to be taken first."""
        stack = self._stacks[size, size]
        return (i for i in reversed(stack) if not blocked or self.hosts[i].id not in blocked)

    def _take_whole(self, hosts: list[int]) -> list[int]:
        for index in hosts:
            slots = self.hosts[index].slots
            self._remove((slots, slots), index)
        self.busy.update(hosts)
        return hosts

    def _push(self, key: Key, index: int) -> None:
        stack = self._stacks.setdefault(key, [])
        if not stack:
            insort(self._keys, key)
        stack.append(index)

    def _pop(self, key: Key, blocked: frozenset[str]) -> int | None:
        stack = self._stacks[key]
        for index in reversed(stack):
            if not blocked or self.hosts[index].id not in blocked:
                self._remove(key, index)
                return index
        return None

    def _remove(self, key: Key, index: int) -> None:
        stack = self._stacks[key]
        place = len(stack) - 1
        while stack[place] != index:
            place -= 1
        del stack[place]
        if not stack:
            del self._keys[bisect_left(self._keys, key)]


class Seating(NamedTuple):
    """The hosts on which the demand of a pool finds room, and the demand that finds none."""

    room: Room
    hosts_of: dict[str, list[int]]
    unmet: list[Demand]


def seat(demand: Iterable[Demand], room: Room) -> Seating:
    """Place the demand in the order of the queue, as far as the limits of its jobs allow."""
    hosts_of: dict[str, list[int]] = {}
    unmet = []
    full: set[tuple[int, bool]] = set()  # shapes that found no room: those after them find none
    held: dict[str, int] = {}
    for one in demand:
        if one.job_max_slots is not None and one.slots:
            slots = held.get(one.job_id, one.job_held_slots) + one.slots
            if slots > one.job_max_slots:
                continue
            held[one.job_id] = slots
        shape = one.slots, one.single_agent
        hosts = None if shape in full else room.place(one)
        if hosts is not None:
            hosts_of[one.allocation_id] = hosts
            continue
        unmet.append(one)
        if not one.blocked_machines:
            full.add(shape)
    return Seating(room, hosts_of, unmet)
