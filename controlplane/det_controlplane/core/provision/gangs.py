"""Choose the machines of a demand that no single machine holds: equal ones in one place, as the scheduler has it."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from .market import Market, Ranked
from .model import Demand, Limits
from .room import Room


class Gang(NamedTuple):
    """Machines that a demand over several machines lacks."""

    best: Ranked
    machines: int


# Wholly free machines that a gang uses: how many of each place and size.
Used = tuple[tuple[tuple[str, int], int], ...]


class GangBuyer:
    """Completes wholly free machines to gangs, each machine for one gang."""

    def __init__(self, market: Market, room: Room, limits: Limits, machines: int) -> None:
        self._market = market
        self._room = room
        self._mixes = limits.allow_heterogeneous_fits
        self._machines = machines  # that may be rented
        self._whole = room.whole()

    def lacking(self, demand: Demand) -> Gang | None:
        """Return the machines that complete a gang most cheaply; None where no offer can."""
        if demand.single_agent:
            return None
        gangs = [
            (
                gang.machines > self._machines,
                gang.best.price * gang.machines,
                gang.machines,
                used,
                gang,
            )
            for gang, used in self._candidates(demand)
        ]
        if not gangs:
            return None
        *_, used, gang = min(gangs)
        for kind, count in used:
            self._whole[kind] -= count
        return gang

    def _candidates(self, demand: Demand) -> Iterator[tuple[Gang, Used]]:
        """Yield a gang for each place and size, with the wholly free machines that it uses."""
        # A machine that the demand failed on is not told apart here: it then gets machines of its own.
        whole = {} if demand.blocked_machines else +self._whole
        for (place, size), best in self._market.places.items():
            if not size:
                continue
            if demand.slots % size == 0:
                count = demand.slots // size
                have = min(whole.get((place, size), 0), count - 1)
                used = (((place, size), have),) if have else ()
                yield Gang(self._like(best) if have else best, count - have), used
            elif self._mixes:
                there = {kind: count for kind, count in whole.items() if kind[0] == place}
                yield self._mixed(demand, best, there)

    def _mixed(
        self, demand: Demand, best: Ranked, whole: dict[tuple[str, int], int]
    ) -> tuple[Gang, Used]:
        missing = demand.slots - sum(size * count for (_, size), count in whole.items())
        if missing <= 0:
            missing, whole = demand.slots, {}
        return Gang(best, math.ceil(missing / best.offer.slots)), tuple(whole.items())

    def _like(self, best: Ranked) -> Ranked:
        """Return the best offer of the machine types that are free already in a place and size, if there is any."""
        place, size = best.offer.place, best.offer.slots
        types = {offer.machine_type for offer in self._room.offers_of_whole(place, size)}
        alike = [
            ranked
            for ranked in self._market.ranked
            if ranked.offer.machine_type in types
            and (ranked.offer.place, ranked.offer.slots) == (place, size)
        ]
        return min(alike, default=best)
