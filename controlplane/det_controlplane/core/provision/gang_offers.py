"""Choose offers for the machines that a gang lacks: equal machines in one place, as the scheduler requires.

A strict gang needs machines of one zone, so its spans are zones. The spans of other gangs are places.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .market import Market, Ranked, zone_of
from .model import Demand, Limits
from .offers import Offer
from .placing import DemandPlacement


class MissingMachines(NamedTuple):
    """Machines to rent for a gang."""

    best: Ranked
    machines: int


# The wholly free machines that a gang would use: their number by span and size.
Used = tuple[tuple[tuple[str, int], int], ...]


class GangOffers:
    """Completes wholly free machines to gangs. A machine belongs to one gang only."""

    def __init__(
        self, market: Market, placement: DemandPlacement, offers: Sequence[Offer], limits: Limits
    ) -> None:
        """Take the `offers` of the agents in `placement`."""
        self._market = market
        self._slots = placement.slots
        self._whole = {strict: placement.whole_agents(by_zone=strict) for strict in (False, True)}
        self._offers = offers
        self._mixes_sizes = limits.allow_heterogeneous_fits

    def missing_machines(self, demand: Demand, max_machines: int) -> MissingMachines | None:
        """Return the cheapest machines that complete a gang, or None if no offer can."""
        if demand.single_agent:
            return None
        gangs = [
            (missing.machines > max_machines, missing.best.price * missing.machines, missing.machines, used, missing)
            for missing, used in self._candidates(demand)
        ]  # fmt: skip
        if not gangs:
            return None
        *_, used, missing = min(gangs)
        for kind, count in used:
            self._whole[demand.strict_topology][kind] -= count
        return missing

    def _candidates(self, demand: Demand) -> Iterator[tuple[MissingMachines, Used]]:
        """Yield the machines for each span and size, with the wholly free machines that they join."""
        strict = demand.strict_topology
        # Machines that a demand must not use are not counted apart. Such demand gets a gang of new machines.
        whole = {} if demand.blocked_agents or demand.capacity else +self._whole[strict]
        offers = self._market.zones if strict else self._market.places
        for (span, size), best in offers.items():
            if not size:
                continue
            if demand.slots % size == 0:
                machines = demand.slots // size
                free = min(whole.get((span, size), 0), machines - 1)
                used = (((span, size), free),) if free else ()
                like = self._like(best, strict) if free else best
                yield MissingMachines(like, machines - free), used
            elif self._mixes_sizes:
                free_here = {kind: count for kind, count in whole.items() if kind[0] == span}
                yield self._mixed(demand, best, free_here)

    def _mixed(
        self, demand: Demand, best: Ranked, whole: dict[tuple[str, int], int]
    ) -> tuple[MissingMachines, Used]:
        missing = demand.slots - sum(size * count for (_, size), count in whole.items())
        if missing <= 0:
            missing, whole = demand.slots, {}
        return MissingMachines(best, math.ceil(missing / best.offer.slots)), tuple(whole.items())

    def _like(self, best: Ranked, strict: bool) -> Ranked:
        """Return the best offer of a machine type that is wholly free in the span, else `best`."""
        span, size = self._span(best.offer, strict), best.offer.slots
        free = (self._offers[agent] for agent in self._slots.whole_agents(size))
        types = {offer.machine_type for offer in free if self._span(offer, strict) == span}
        alike = [
            ranked
            for ranked in self._market.ranked
            if ranked.offer.machine_type in types
            and (self._span(ranked.offer, strict), ranked.offer.slots) == (span, size)
        ]
        return min(alike, default=best)

    @staticmethod
    def _span(offer: Offer, strict: bool) -> str:
        return zone_of(offer) if strict else offer.place
