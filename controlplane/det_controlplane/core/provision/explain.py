"""Explain why an allocation has no machine yet: the considered offers, their obstacles, and the next attempts."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from det_controlplane.core.schedule.wording import counted

from .cooldown import clock
from .market import Excluded, Market, money
from .model import Demand, Hold, Limits, Machine, ProvisionCode, ProvisionReason
from .offers import Offer
from .placing import could_hold
from .purchases import Shape, shape_of
from .upkeep import since

_SHOWN = 3


class Explainer:
    """Write the reasons for the decisions of a pool's pass. Demand of one shape has one reason."""

    def __init__(
        self, pool: str, market: Market, limits: Limits, machines: int, usd_hour: Decimal
    ) -> None:
        self._pool = pool
        self._market = market
        self._limits = limits
        self._machines = machines  # that the pool has or will have
        self._usd_hour = usd_hour
        self._known: dict[tuple[Shape, ProvisionCode | None], ProvisionReason] = {}
        self._placed: dict[tuple[int, ...], ProvisionReason] = {}  # by the awaited machines

    def launching(self, launches: Sequence[tuple[Offer, ...]]) -> ProvisionReason:
        """Explain the launches and why cheaper offers were not used."""
        key = tuple(map(id, launches))
        if key not in self._placed:
            self._placed[key] = self._launching(launches)
        return self._placed[key]

    def _launching(self, launches: Sequence[tuple[Offer, ...]]) -> ProvisionReason:
        counts = Counter(offers[0] for offers in launches)
        parts = [_describe_price(offer, count) for offer, count in counts.items()]
        others = sum(len(offers) - 1 for offers in set(launches))
        more = f" (or {counted(others, 'other offer')})" if others else ""
        sentence = f"rents {' and '.join(parts)}{more}{self._passed_over(counts)}"
        return ProvisionReason(ProvisionCode.LAUNCHING, sentence)

    def _passed_over(self, offers: Iterable[Offer]) -> str:
        dearest = max(offers, key=lambda offer: offer.price_usd_hour)
        cheaper = [*self._market.excluded, *self._ranked_behind(dearest)]
        alternatives = [
            one
            for one in cheaper
            if one.offer.slots == dearest.slots
            and one.offer.price_usd_hour < dearest.price_usd_hour
        ]
        return f"; cheaper: {_causes(alternatives)}" if alternatives else ""

    def _ranked_behind(self, offer: Offer) -> Iterator[Excluded]:
        """Yield offers that could be rented for less, and why they are not."""
        price = next((r.price for r in self._market.ranked if r.offer == offer), 0.0)
        for ranked in self._market.ranked:
            if offer in self._market.hinted and ranked.offer not in self._market.hinted:
                cause = "its cloud names other zones that have room"
            elif ranked.price > price:
                cause = "reclaimed so often recently that it counts as more expensive"
            else:
                cause = "of another type or region than the machines that it would join"
            yield Excluded(ranked.offer, ProvisionCode.LAUNCHING, cause, None)

    def starting(self, machines: Sequence[Machine]) -> ProvisionReason:
        """Explain which machines have been rented and have not joined."""
        key = tuple(map(id, machines))
        if key not in self._placed:
            self._placed[key] = self._starting(machines)
        return self._placed[key]

    def _starting(self, machines: Sequence[Machine]) -> ProvisionReason:
        newest = max(machines, key=since)
        names = " and ".join(
            f"{count} × {name}" if count > 1 else name
            for name, count in Counter(str(machine.offer) for machine in machines).items()
        )
        sentence = f"waiting for {names}, requested at {clock(newest.requested_at)}"
        placements = dict.fromkeys(m.placement for m in machines if m.placement)
        if placements and len(machines) > 1:
            sentence += f", in {' and '.join(placements)}"
        trouble = next((machine.trouble for machine in machines if machine.trouble), "")
        if trouble:
            return ProvisionReason(ProvisionCode.MACHINE_STARTING, f"{sentence}; {trouble}")
        if newest.launched_at is None:
            return ProvisionReason(ProvisionCode.MACHINE_STARTING, sentence)
        until = since(newest) + self._limits.max_starting_s
        sentence += f"; replaced unless it joins by {clock(until)}"
        return ProvisionReason(ProvisionCode.MACHINE_STARTING, sentence, until)

    def held(self, holds: Sequence[Hold]) -> ProvisionReason:
        """Explain why the pool launches no machines, with every cause."""
        sentence = f"the pool rents no machines: {'; and '.join(map(self._held, holds))}"
        ends = [hold.until for hold in holds if hold.until is not None]
        until = max(ends) if len(ends) == len(holds) else None
        return ProvisionReason(ProvisionCode.POOL_HELD, sentence, until)

    def _held(self, hold: Hold) -> str:
        if hold.of_budget:
            return hold.sentence
        if hold.until is not None:
            return f"{hold.sentence}; tried again at {clock(hold.until)}"
        return f"{hold.sentence}; an administrator can end this with `det pool resume {self._pool}`"

    def unmet(self, demand: Demand, code: ProvisionCode | None) -> ProvisionReason:
        """Explain why a demand gets no machines. No code means that other demand goes first."""
        key = (shape_of(demand), code)
        if key not in self._known:
            self._known[key] = self._unmet(demand, code)
        return self._known[key]

    def _unmet(self, demand: Demand, code: ProvisionCode | None) -> ProvisionReason:
        if code is None:
            sentence = "higher-priority work goes first and is waiting for machines that cannot be rented now"
            return ProvisionReason(ProvisionCode.BEHIND_HIGHER_PRIORITY, sentence)
        fitting = [offer for offer in self._market.offers if self._could_hold(offer, demand)]
        if not fitting:
            return self._nothing_fits(demand)
        obstacles = {excluded.offer: excluded for excluded in self._market.excluded}
        excluded = [obstacles[offer] for offer in fitting if offer in obstacles]
        if len(excluded) < len(fitting):
            too_dear = code is ProvisionCode.MAX_HOURLY_COST
            return self._too_dear(demand) if too_dear else self._too_many(demand)
        cooling = [e for e in excluded if e.code is ProvisionCode.COOLING_DOWN]
        until = min((e.until for e in excluded if e.until is not None), default=None)
        kind = _most_hopeful(e.code for e in excluded)
        first = sorted(cooling, key=lambda e: (e.until is None, e.until or 0.0)) or excluded
        sentence = (
            f"{_describe_need(demand)}; no offer that fits can be rented now: {_causes(first)}"
        )
        return ProvisionReason(kind, sentence, until)

    def _could_hold(self, offer: Offer, demand: Demand) -> bool:
        return could_hold(offer, demand.slots, demand.single_agent, self._limits)

    def _nothing_fits(self, demand: Demand) -> ProvisionReason:
        sizes = sorted({offer.slots for offer in self._market.offers})
        if not sizes:
            cause = "the pool has no offers"
        elif not demand.slots:
            cause = "max_aux_containers_per_agent of the pool is 0"
        else:
            cause = f"the machines of the pool have {' or '.join(map(str, sizes))} slots"
        sentence = f"{_describe_need(demand)}; {cause}; request fewer slots, or add larger types to the pool"
        return ProvisionReason(ProvisionCode.NO_OFFER_FITS, sentence)

    def _too_many(self, demand: Demand) -> ProvisionReason:
        limit = self._limits.max_instances
        fitting = [offer for offer in self._market.offers if self._could_hold(offer, demand)]
        least = min(_machines_for(demand, offer) for offer in fitting)
        if least > limit:
            need = f"{_describe_need(demand)}: {counted(least, 'machine')}"
            sentence = f"{need}, and the pool may have {limit} (max_instances)"
            way_out = "request fewer slots, or raise max_instances"
            return ProvisionReason(ProvisionCode.MAX_INSTANCES, f"{sentence}; {way_out}")
        size = f"the pool has {self._machines} of at most {limit} machines (max_instances)"
        sentence = f"{_describe_need(demand)}; {size}"
        way_out = "it starts when enough is free, or with a larger max_instances"
        return ProvisionReason(ProvisionCode.MAX_INSTANCES, f"{sentence}; {way_out}")

    def _too_dear(self, demand: Demand) -> ProvisionReason:
        limit = self._limits.max_hourly_cost or Decimal(0)
        fitting = [
            (_machines_for(demand, ranked.offer), ranked.offer)
            for ranked in self._market.ranked
            if self._could_hold(ranked.offer, demand)
        ]
        count, offer = min(fitting, key=lambda pair: pair[0] * pair[1].price_usd_hour)
        cheapest = f"; the cheapest that fits is {_describe_price(offer, count)}"
        sentence = (
            f"{_describe_need(demand)}; the pool's machines cost {money(self._usd_hour)} of at most "
            f"{money(limit)} an hour (max_hourly_cost){cheapest}"
        )
        way_out = "it starts when enough is free, or with a larger max_hourly_cost"
        return ProvisionReason(ProvisionCode.MAX_HOURLY_COST, f"{sentence}; {way_out}")


def _most_hopeful(codes: Iterable[ProvisionCode]) -> ProvisionCode:
    """Return the obstacle that is likely to go away first: a cooldown, then a price."""
    order = (ProvisionCode.COOLING_DOWN, ProvisionCode.PRICE_CAP, ProvisionCode.NO_OFFER_FITS)
    return min(codes, key=order.index)


def _describe_need(demand: Demand) -> str:
    if not demand.slots:
        return "needs a machine, but no slot"
    where = " on one machine" if demand.single_agent else ""
    return f"needs {counted(demand.slots, 'slot')}{where}"


def _machines_for(demand: Demand, offer: Offer) -> int:
    return math.ceil(demand.slots / offer.slots) if demand.slots else 1


def _describe_price(offer: Offer, count: int) -> str:
    many = f"{count} × " if count > 1 else ""
    return f"{many}{offer} at {money(offer.price_usd_hour)} an hour"


def _causes(excluded: Sequence[Excluded]) -> str:
    """Return the offers grouped by their obstacle, so that each cause is named once."""
    offers: dict[str, list[Offer]] = {}
    for one in excluded:
        offers.setdefault(one.sentence, []).append(one.offer)
    parts = []
    for sentence, group in list(offers.items())[:_SHOWN]:
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        parts.append(f"{group[0]}{more}: {sentence}")
    if len(offers) > _SHOWN:
        parts.append(f"and {len(offers) - _SHOWN} more causes")
    return "; ".join(parts)
