"""Look up machine types, regions and list prices of the clouds.

The tables are bundled and dated. They define the types that a pool may name and rank offers. The bill of a cloud may
differ.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from . import catalog_aws, catalog_gcp
from .offers import Capacity, MachineType

PROVIDERS = ("aws", "gcp")
LIST_OF = "June 2025"  # the date of the list prices below
# The price of an unknown type until the operator sets one. It is rather too high.
_UNKNOWN_USD_A_SLOT = Decimal(5)
_REGIONS = {"aws": catalog_aws.REGIONS, "gcp": catalog_gcp.REGIONS}
_SPOT_RATIOS = {"aws": catalog_aws.SPOT_RATIO, "gcp": catalog_gcp.SPOT_RATIO}
# Zones as the clouds name them: us-east-1a, us-west-2-lax-1a; us-central1-a.
_ZONES = {
    "aws": re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)(?:-[a-z]{3}-\d)?[a-z]"),
    # AI zones are named like us-central1-ai1a.
    "gcp": re.compile(r"([a-z]+-[a-z]+\d+)-(?:ai\d+)?[a-z]"),
}


class Unknown(ValueError):
    """A cloud has no such provider, region or machine type; the message suggests a similar name."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A machine type with its price where prices are lowest."""

    type: MachineType
    base_usd_hour: Decimal
    is_exact: bool = False  # in every region, as the operator says

    def price(self, region: str, capacity: Capacity) -> Decimal:
        """Return the approximate price of the type in a region, if no newer price is known."""
        factors = _REGIONS[self.type.provider]
        factor = Decimal(1) if self.is_exact else Decimal(factors[region])
        ratio = _SPOT_RATIOS[self.type.provider] if capacity is Capacity.SPOT else Decimal(1)
        return (self.base_usd_hour * factor * ratio).quantize(Decimal("0.0001"))


def machine_type(provider: str, name: str) -> Priced:
    """Return a type by its name. Raises Unknown."""
    types = _types(provider)
    if name not in types:
        raise _unknown(name, types, "For a newer type give instance_slots and instance_price too")
    machine, price = types[name]
    return Priced(machine, price)


def is_known(provider: str, name: str) -> bool:
    """Return whether the catalog has a type."""
    return name in _types(provider)


def has_gpus(provider: str, name: str) -> bool:
    """Return whether a type is known to have GPUs of its own."""
    entry = _types(provider).get(name)
    return entry is not None and entry[0].accelerator != ""


def is_spot_only(provider: str, name: str) -> bool:
    """Return whether the cloud rents a type as spot capacity only."""
    return provider == "gcp" and name in catalog_gcp.SPOT_ONLY


def with_gpus(machine: Priced, gpu_type: str, count: int) -> Priced:
    """Return an N1 type with GPUs attached to it. Raises Unknown."""
    if gpu_type not in catalog_gcp.ATTACHED:
        choices = ", ".join(catalog_gcp.ATTACHED)
        raise _unknown(gpu_type, catalog_gcp.ATTACHED, f"GPUs that N1 types take: {choices}")
    name, gib, price = catalog_gcp.ATTACHED[gpu_type]
    attached = replace(machine.type, slots=count, accelerator=name, accelerator_memory_gib=gib)
    return Priced(attached, machine.base_usd_hour + count * price)


def of_the_operator(provider: str, name: str, slots: int) -> Priced:
    """Return a type that no table knows, as its operator describes it."""
    machine = MachineType(provider, name, slots, "", 0, 0, 0)
    return Priced(machine, _UNKNOWN_USD_A_SLOT * max(1, slots), is_exact=True)


def adjusted(priced: Priced, slots: int, usd_hour: Decimal | None) -> Priced:
    """Return a type with the slots, and the price on demand, that an operator gives it."""
    machine = replace(priced.type, slots=slots)
    if usd_hour is None:
        return replace(priced, type=machine)
    return Priced(machine, usd_hour, is_exact=True)


def check_region(provider: str, region: str) -> None:
    """Raise Unknown for a region that the cloud does not have."""
    if region not in _REGIONS[provider]:
        raise _unknown(region, _REGIONS[provider], f"It must be a region of {provider}")


def region_of(provider: str, zone: str) -> str:
    """Return the region of a zone. Raises Unknown."""
    match = _ZONES[provider].fullmatch(zone)
    if match is None:
        example = {"aws": "us-east-1a", "gcp": "us-central1-a"}[provider]
        raise Unknown(f"{zone!r} is no zone of {provider}; zones are written like {example}")
    check_region(provider, match[1])
    return match[1]


def _unknown(name: str, choices: Iterable[str], remedy: str) -> Unknown:
    import difflib

    names = sorted(choices)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    # A family, such as p3.
    close = close or [other for other in names if other.startswith((f"{name}.", f"{name}-"))][:3]
    guess = f"; did you mean {' or '.join(close)}?" if close else "."
    return Unknown(f"{name!r} is unknown{guess} {remedy}")


@lru_cache
def _types(provider: str) -> dict[str, tuple[MachineType, Decimal]]:
    return catalog_aws.types() if provider == "aws" else catalog_gcp.types()
