"""The machine types of a cloud, their zones and their prices."""

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
    """A price of the scope's machine type, or of machine type and GPUs. It is valid from `since`."""

    scope: Scope  # without a zone: all zones of the region
    usd_hour: Decimal
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class MarketAnswer:
    """The prices of one region, and the zones of each type by `WantedType.name`.

    `problem` describes the parts that the cloud did not return.
    """

    prices: tuple[Price, ...] = ()
    types: Mapping[str, TypeZones] = field(default_factory=dict)
    problem: str = ""


class Market(Protocol):
    provider: str

    def read(self, place: Place, wanted: Sequence[WantedType]) -> MarketAnswer:
        """Return the zones and prices of the wanted types in a region. Raises Unreachable."""
        ...
