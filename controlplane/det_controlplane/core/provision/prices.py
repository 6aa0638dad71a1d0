"""Apply the clouds' answers about types and prices to the offers of a pool."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from .offers import Capacity, Offer, Scope


class WantedType(NamedTuple):
    """A machine type that a pool names in a region, with the GPUs that are attached to it."""

    machine_type: str
    gpu: str = ""
    gpus: int = 0

    @property
    def name(self) -> str:
        """Return the name under which its price is kept."""
        return f"{self.machine_type}+{self.gpus}x{self.gpu}" if self.gpus else self.machine_type


class Quote(NamedTuple):
    """A price that a cloud reported. `since` is its begin, if the cloud reports it."""

    usd_hour: Decimal
    read_at: float
    since: float | None = None


class TypeZones(NamedTuple):
    """The zones of a region that have a type. Without zones, the type does not exist there. 0 slots are unknown."""

    zones: tuple[str, ...]
    slots: int = 0


class _Section(Protocol):
    @property
    def settings(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class MarketKnowledge:
    """Hold the last answers of the clouds. Types are by provider, region and `WantedType.name`."""

    prices: Mapping[Scope, Quote] = field(default_factory=dict)
    types: Mapping[tuple[str, str, str], TypeZones] = field(default_factory=dict)
    # When each region is asked again.
    due: Mapping[tuple[str, str], float] = field(default_factory=dict)


def wanted_of(offer: Offer, sections: Sequence[_Section]) -> WantedType:
    """Return the machine type with its attached GPUs, for the price request of the offer's cloud."""
    attached = _settings(offer, sections).get("instance_type")
    if offer.machine_type.startswith("n1-") and isinstance(attached, Mapping):
        count = int(attached.get("gpu_num") or 0)
        if count and attached.get("gpu_type"):
            return WantedType(offer.machine_type, str(attached["gpu_type"]), count)
    return WantedType(offer.machine_type)


def quote_of(offer: Offer, sections: Sequence[_Section], known: MarketKnowledge) -> Quote | None:
    """Return the price that the offer's cloud reported. Return None without one, or if the operator set the price.

    A cloud that chooses the zone may choose the dearest.
    """
    if is_own_price(offer, sections):
        return None
    scope = Scope.of(offer)._replace(machine_type=wanted_of(offer, sections).name)
    exact = known.prices.get(scope) or known.prices.get(scope._replace(zone=""))
    if exact is not None or offer.zone:
        return exact
    zones = known.types.get((offer.provider, offer.region, scope.machine_type), TypeZones(())).zones
    zone_quotes = [known.prices.get(scope._replace(zone=zone)) for zone in zones]
    quotes = (quote for quote in zone_quotes if quote is not None)
    return max(quotes, key=lambda quote: quote.usd_hour, default=None)


def is_own_price(offer: Offer, sections: Sequence[_Section]) -> bool:
    """Return whether the operator set the price of the offer. `instance_price` is the on-demand price."""
    has_price = _settings(offer, sections).get("instance_price") is not None
    return has_price and offer.capacity is Capacity.ON_DEMAND


def current(
    offers: Sequence[Offer], sections: Sequence[_Section], known: MarketKnowledge
) -> tuple[Offer, ...]:
    """Return the offers with the last reported prices, in the same order."""
    if not (known.prices or known.types):
        return tuple(offers)
    return tuple(_current(offer, sections, known) for offer in offers)


def _current(offer: Offer, sections: Sequence[_Section], market: MarketKnowledge) -> Offer:
    changes = dict(_changes(offer, sections, market))
    return replace(offer, **changes) if changes else offer


def _changes(
    offer: Offer, sections: Sequence[_Section], market: MarketKnowledge
) -> Iterator[tuple[str, Any]]:
    quote = quote_of(offer, sections, market)
    if quote is not None:
        yield "price_usd_hour", quote.usd_hour
    name = wanted_of(offer, sections).name
    machine_type = market.types.get((offer.provider, offer.region, name))
    if machine_type is None:
        return
    has_it = offer.zone in machine_type.zones if offer.zone else bool(machine_type.zones)
    if not has_it:
        yield "is_absent", True
    own_slots = _settings(offer, sections).get("instance_slots") is not None
    if machine_type.slots and not own_slots:
        yield "slots", machine_type.slots


def _settings(offer: Offer, sections: Sequence[_Section]) -> Mapping[str, Any]:
    return sections[offer.section].settings if offer.section < len(sections) else {}
