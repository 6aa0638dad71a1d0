"""Define an offer of a cloud: a machine type in a place, as spot or on-demand capacity, at a price."""

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NamedTuple


class Capacity(str, Enum):
    """The ways to rent a machine."""

    SPOT = "spot"  # cheaper, and may be reclaimed
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type of a provider, wherever it is offered."""

    provider: str
    name: str
    slots: int
    accelerator: str  # "NVIDIA A10G"; empty for a machine without one
    accelerator_memory_gib: float
    vcpus: int
    memory_gib: float


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine that a pool may rent."""

    provider: str
    region: str
    zone: str  # empty: any zone of the region that the pool's network reaches
    machine_type: str
    capacity: Capacity
    slots: int
    price_usd_hour: Decimal
    section: int = 0  # which of the pool's provider sections it comes from
    max_price_usd_hour: Decimal | None = None  # the operator's cap: not rented while it costs more
    is_absent: bool = False  # its cloud says that the place does not have the type

    @property
    def place(self) -> str:
        """Return the cloud and region: gangs stay within one."""
        return f"{self.provider} {self.region}"

    def __str__(self) -> str:
        return (
            f"{self.provider} {self.zone or self.region} {self.machine_type} {self.capacity.value}"
        )


class Scope(NamedTuple):
    """A set of offers by their values. An empty value matches all."""

    provider: str
    region: str = ""
    zone: str = ""
    machine_type: str = ""
    capacity: str = ""

    def covers(self, offer: Offer) -> bool:
        """Return whether an offer is one of the set. An offer of any zone is not covered by one zone."""
        values = (
            offer.provider, offer.region, offer.zone, offer.machine_type, offer.capacity.value,
        )  # fmt: skip
        return all(not part or part == value for part, value in zip(self, values, strict=True))

    @classmethod
    def of(cls, offer: Offer) -> "Scope":
        """Return the smallest scope of an offer."""
        return cls(
            offer.provider, offer.region, offer.zone, offer.machine_type, offer.capacity.value
        )
