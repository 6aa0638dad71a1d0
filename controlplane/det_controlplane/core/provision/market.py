"""The offers of a pool at one moment: which may be rented, in which order, and why the others may not."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import copy
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from .cooldown import Cooldowns, clock, masked, masks_of
from .model import ProvisionCode
from .offers import Capacity, Offer, Scope

# Work that a reclaim throws back costs machine time again: each recent one counts as a fifth of the price.
_RECLAIM_WEIGHT = 0.2
_RECLAIM_HALF_LIFE_S = 6 * 3600.0
_MOST_RECLAIMS = 10.0
# A failed call costs minutes, so zones with capacity, as reported by the cloud, come first.
_HINT_DISCOUNT = 0.9
# How much more than the next best offer an alternative may cost, so that one call of the cloud can choose.
_ALTERNATIVE_TOLERANCE = 1.1

_NEVER_READ: Mapping[tuple[str, str], float] = {}


class Ranked(NamedTuple):
    """An offer that may be rented. Offers compare by effective price, then by the operator's order."""

    price: float  # plus the expected cost of reclaims, minus the bonus for a capacity hint
    order: int
    offer: Offer


class Excluded(NamedTuple):
    """An offer that may not be rented now, and why."""

    offer: Offer
    code: ProvisionCode
    sentence: str
    until: float | None


class Market:
    def __init__(
        self,
        offers: Iterable[Offer],
        cooldowns: Cooldowns,
        interruptions: Iterable[tuple[Scope, float]],
        now: float,
        prices_due: Mapping[tuple[str, str], float] = _NEVER_READ,
    ) -> None:
        reclaims = _Reclaims(interruptions, now)
        self.offers = tuple(offers)
        self.excluded: list[Excluded] = []
        self.hinted: set[Offer] = set()  # in zones that their cloud says have room
        ranked = []
        for order, offer in enumerate(self.offers):
            excluded = _find_exclusion(offer, cooldowns, prices_due)
            if excluded is not None:
                self.excluded.append(excluded)
            else:
                price = reclaims.effective_price(offer)
                if cooldowns.hints(offer):
                    self.hinted.add(offer)
                    price *= _HINT_DISCOUNT
                ranked.append(Ranked(price, order, offer))
        self.ranked = sorted(ranked)
        self._alternatives: dict[tuple[int, Decimal | None], tuple[Offer, ...]] = {}

    def restricted(self, capacity: str, first_offer: str = "") -> "Market":
        """Return the market with the offers of a capacity only. `first_offer` ranks before offers of its size."""
        if not capacity:
            return self
        market = copy(self)
        for name in ("sizes", "places", "zones", "any_machine"):
            market.__dict__.pop(name, None)
        market.offers = tuple(o for o in self.offers if o.capacity.value == capacity)
        market.excluded = [e for e in self.excluded if e.offer.capacity.value == capacity]
        ranked = [r for r in self.ranked if r.offer.capacity.value == capacity]
        chosen = next((r for r in ranked if str(r.offer) == first_offer), None)
        if chosen is not None:
            price = min(r.price for r in ranked if r.offer.slots == chosen.offer.slots)
            ranked.remove(chosen)
            ranked.append(Ranked(price, -1, chosen.offer))
        market.ranked = sorted(ranked)
        market._alternatives = {}
        return market

    @cached_property
    def sizes(self) -> dict[int, Ranked]:
        """Return the best offer for each number of slots."""
        best: dict[int, Ranked] = {}
        for ranked in self.ranked:
            best.setdefault(ranked.offer.slots, ranked)
        return best

    @cached_property
    def places(self) -> dict[tuple[str, int], Ranked]:
        """Return the best offer for each number of slots in each place."""
        best: dict[tuple[str, int], Ranked] = {}
        for ranked in self.ranked:
            best.setdefault((ranked.offer.place, ranked.offer.slots), ranked)
        return best

    @cached_property
    def zones(self) -> dict[tuple[str, int], Ranked]:
        """Return the best offer for each number of slots in each zone, with its place."""
        best: dict[tuple[str, int], Ranked] = {}
        for ranked in self.ranked:
            best.setdefault((zone_of(ranked.offer), ranked.offer.slots), ranked)
        return best

    @cached_property
    def any_machine(self) -> Ranked | None:
        """Return the best offer for a machine without waiting work, with slots if there is one."""
        with_slots = [ranked for ranked in self.ranked if ranked.offer.slots]
        return min(with_slots or self.ranked, default=None)

    def alternatives(self, best: Ranked, limit: Decimal | None) -> tuple[Offer, ...]:
        """Return the alternatives that one call may try for an offer, starting with the offer.

        They have the same provider, region, section, capacity and number of slots, cost at most `limit`, and hardly
        more than an offer of a second call."""
        key = best.order, limit
        if key not in self._alternatives:
            self._alternatives[key] = self._like(best, limit)
        return self._alternatives[key]

    def _like(self, best: Ranked, limit: Decimal | None) -> tuple[Offer, ...]:
        same_size = [r for r in self.ranked if r.offer.slots == best.offer.slots and r >= best]
        elsewhere = [r.price for r in same_size if not _one_call(r.offer, best.offer)]
        dearest = min(elsewhere, default=math.inf) * _ALTERNATIVE_TOLERANCE
        return tuple(
            r.offer
            for r in same_size
            if r == best
            or (
                _one_call(r.offer, best.offer)
                and r.price <= dearest
                and (limit is None or r.offer.price_usd_hour <= limit)
            )
        )


def zone_of(offer: Offer) -> str:
    """Return the place and the zone of an offer, as placement names them."""
    return f"{offer.place} {offer.zone}"


def _one_call(one: Offer, other: Offer) -> bool:
    return (one.provider, one.region, one.capacity, one.section) == (
        other.provider, other.region, other.capacity, other.section,
    )  # fmt: skip


def _find_exclusion(
    offer: Offer, cooldowns: Cooldowns, prices_due: Mapping[tuple[str, str], float]
) -> Excluded | None:
    due = prices_due.get((offer.provider, offer.region))
    if offer.is_absent:
        sentence = f"{offer.zone or offer.region} does not have this type; name other zones, regions or types"
        return Excluded(offer, ProvisionCode.NO_OFFER_FITS, sentence, due)
    cap = offer.max_price_usd_hour
    if cap is not None and offer.price_usd_hour > cap:
        again = "" if due is None else f"; its price is read again at {clock(due)}"
        dear = f"costs {money(offer.price_usd_hour)} an hour, above its max_price {money(cap)}"
        sentence = f"{dear}; raise that, or add cheaper offers{again}"
        return Excluded(offer, ProvisionCode.PRICE_CAP, sentence, due)
    cooldown = cooldowns.of(offer)
    if cooldown is None:
        return None
    if cooldowns.is_endless(cooldown):
        sentence = (
            f"{cooldown.sentence}; correct it, then `det pool resume {cooldowns.pool or 'POOL'}`"
        )
        return Excluded(offer, ProvisionCode.COOLING_DOWN, sentence, None)
    sentence = f"{cooldown.sentence}; tried again at {clock(cooldown.until)}"
    return Excluded(offer, ProvisionCode.COOLING_DOWN, sentence, cooldown.until)


class _Reclaims:
    """Count how often clouds took spot machines back lately. An offer of any zone is one of each zone."""

    def __init__(self, interruptions: Iterable[tuple[Scope, float]], now: float) -> None:
        self._in_zones: defaultdict[Scope, float] = defaultdict(float)
        self._in_regions: defaultdict[Scope, float] = defaultdict(float)
        for scope, time in interruptions:
            weight = 0.5 ** (max(0.0, now - time) / _RECLAIM_HALF_LIFE_S)
            self._in_zones[scope] += weight
            self._in_regions[scope._replace(zone="")] += weight
        self._masks = masks_of([*self._in_zones, *self._in_regions])

    def effective_price(self, offer: Offer) -> float:
        price = float(offer.price_usd_hour)
        if offer.capacity is not Capacity.SPOT or not self._masks:
            return price
        weights = self._in_zones if offer.zone else self._in_regions
        scopes = {masked(Scope.of(offer), mask) for mask in self._masks}
        reclaims = sum(weights[scope] for scope in scopes if scope in weights)
        return price * (1 + _RECLAIM_WEIGHT * min(reclaims, _MOST_RECLAIMS))


def money(amount: Decimal) -> str:
    """Return an amount as text for sentences."""
    places = 4 if amount and amount < Decimal("0.1") else 2
    return f"${amount:.{places}f}"
