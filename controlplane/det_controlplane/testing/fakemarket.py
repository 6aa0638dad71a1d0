"""The machine types and prices of a cloud in memory."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal

from det_controlplane.core.provision.offers import Offer, Scope
from det_controlplane.core.provision.prices import TypeZones, WantedType
from det_controlplane.ports.compute import MarketAnswer, Place, Price, Unreachable

PRICE_SPELL_S = 1200.0  # how long a price holds


@dataclass(slots=True)
class FakeMarket:
    """Implement `Market` with prices that a test sets, or that vary around the prices of some offers."""

    provider: str = "aws"
    prices: dict[Scope, Decimal] = field(default_factory=dict)
    zones: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by type, if reported
    now: Callable[[], float] = lambda: 0.0
    seed: int = 0
    drift: float = 0.0  # prices are up to this share dearer or cheaper
    connected: bool = True
    asked: int = 0

    def read(self, place: Place, wanted: Sequence[WantedType]) -> MarketAnswer:
        self.asked += 1
        if not self.connected:
            raise Unreachable(f"{self.provider} does not tell types and prices: no permission")
        names = {w.name for w in wanted}
        prices = tuple(
            Price(scope, self._price(scope, usd), datetime.fromtimestamp(self.now(), timezone.utc))
            for scope, usd in self.prices.items()
            if scope.region == place.region and scope.machine_type in names
        )
        types = {name: TypeZones(self.zones[name]) for name in sorted(names) if name in self.zones}
        return MarketAnswer(prices, types)

    def follow(self, offers: Sequence[Offer]) -> None:
        """Begin with the prices of some offers."""
        self.prices = {Scope.of(o): o.price_usd_hour for o in offers if o.provider == self.provider}

    def _price(self, scope: Scope, usd: Decimal) -> Decimal:
        spell = int(self.now() // PRICE_SPELL_S)
        drawn = random.Random(f"{self.seed}/{scope}/{spell}").uniform(-self.drift, self.drift)
        return round(usd * Decimal(1 + drawn), 4)
