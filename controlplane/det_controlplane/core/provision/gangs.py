"""Choose the machines of a demand that no single machine holds: equal ones, as the scheduler fits gangs."""

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
        for size, count in used:
            self._whole[size] -= count
        return gang

    def _candidates(self, demand: Demand) -> Iterator[tuple[Gang, tuple[tuple[int, int], ...]]]:
        """Yield a gang for each size, with the wholly free machines that it uses."""
        # A machine that the demand failed on is not told apart here: it then gets machines of its own.
        whole = {} if demand.blocked_machines else +self._whole
        for size, best in self._market.sizes.items():
            if not size:
                continue
            if demand.slots % size == 0:
                count = demand.slots // size
                have = min(whole.get(size, 0), count - 1)
                used = ((size, have),) if have else ()
                yield Gang(self._like(size, best) if have else best, count - have), used
            elif self._mixes:
                yield self._mixed(demand, best, dict(whole))

    def _mixed(
        self, demand: Demand, best: Ranked, whole: dict[int, int]
    ) -> tuple[Gang, tuple[tuple[int, int], ...]]:
        missing = demand.slots - sum(size * count for size, count in whole.items())
        if missing <= 0:
            missing, whole = demand.slots, {}
        return Gang(best, math.ceil(missing / best.offer.slots)), tuple(whole.items())

    def _like(self, size: int, best: Ranked) -> Ranked:
        """Return the best offer of the types and regions that the free machines are of, if there is any."""
        kinds = {(o.region, o.machine_type) for o in self._room.offers_of_whole(size)}
        alike = [
            ranked
            for ranked in self._market.ranked
            if (ranked.offer.region, ranked.offer.machine_type) in kinds
            and ranked.offer.slots == size
        ]
        return min(alike, default=best)
