"""The machine types that a cloud rents out, their zones and their prices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from det_controlplane.core.provision.offers import Scope
from det_controlplane.core.provision.prices import TypeZones, WantedType
from det_controlplane.ports.compute import Place


@dataclass(frozen=True, slots=True)
class Price:
    """A price of the machine type, or of machine type and GPUs, that a scope names. `since` is when it began."""

    scope: Scope  # without a zone: in every zone of the region
    usd_hour: Decimal
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class MarketAnswer:
    """The answer about one region: prices, and where types are offered by `WantedType.name`.

    `problem` says which part of it the cloud did not tell.
    """

    prices: tuple[Price, ...] = ()
    types: Mapping[str, TypeZones] = field(default_factory=dict)
    problem: str = ""


class Market(Protocol):
    provider: str

    def read(self, place: Place, wanted: Sequence[WantedType]) -> MarketAnswer:
        """Return the zones and prices of some types in a region. Raises Unreachable."""
        ...
