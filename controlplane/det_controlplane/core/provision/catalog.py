"""Look up machine types, regions and list prices of the clouds.

The tables are bundled and dated. They define the types that a pool may name and rank offers. The bill of a cloud may
differ. A package of another cloud registers its own table (docs/guides/write-a-provider.md).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import catalog_aws, catalog_gcp
from .offers import Capacity, MachineType

if TYPE_CHECKING:
    from pydantic import BaseModel

LIST_OF = "June 2025"  # the date of the list prices below
# The price of an unknown type until the operator sets one. It is rather too high.
_UNKNOWN_USD_A_SLOT = Decimal(5)
Types = Mapping[str, tuple[MachineType, Decimal]]


@dataclass(frozen=True)
class Catalog:
    """The machine types, places and list prices of one provider, and the keys of its sections."""

    provider: str
    types: Callable[[], Types]  # with the price on demand where prices are lowest
    regions: Mapping[str, "Decimal | float | str"]  # with the factor of prices there
    zone: "re.Pattern[str]" = re.compile(r"(.+)")  # the first group is the region
    zone_example: str = ""
    spot_ratio: Decimal = Decimal(1)  # of the price on demand
    spot_only: frozenset[str] = frozenset()
    # The keys of a pool's section that only this provider has. AWS and Google Cloud have Determined's.
    settings: "type[BaseModel] | None" = None
    # Options of the agent on every machine: by `identity` it proves the machine.
    agent_options: Mapping[str, Any] = field(default_factory=dict)


_AWS = Catalog(
    "aws",
    lru_cache(catalog_aws.types),
    catalog_aws.REGIONS,
    # Zones as the clouds name them: us-east-1a, us-west-2-lax-1a; us-central1-a.
    re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)(?:-[a-z]{3}-\d)?[a-z]"),
    "us-east-1a",
    catalog_aws.SPOT_RATIO,
    agent_options={"identity": "aws"},
)
_GCP = Catalog(
    "gcp",
    lru_cache(catalog_gcp.types),
    catalog_gcp.REGIONS,
    # AI zones are named like us-central1-ai1a.
    re.compile(r"([a-z]+-[a-z]+\d+)-(?:ai\d+)?[a-z]"),
    "us-central1-a",
    catalog_gcp.SPOT_RATIO,
    catalog_gcp.SPOT_ONLY,
    # Google Cloud switches a spot machine off 30 seconds after its notice, and the shutdown begins at once. Containers
    # get most of this time; the agent uses the rest for its last reports.
    agent_options={"identity": "gcp", "stop_grace": 20},
)
_CATALOGS = {catalog.provider: catalog for catalog in (_AWS, _GCP)}


def register(catalog: Catalog) -> None:
    """Add the catalog of a package. A process does this before it reads configurations. Raises ValueError."""
    known = _CATALOGS.setdefault(catalog.provider, catalog)
    if known is not catalog:
        raise ValueError(f"there is already a catalog of provider {catalog.provider!r}")


def catalog_of(provider: str) -> Catalog:
    return _CATALOGS[provider]


def agent_options(provider: str) -> Mapping[str, Any]:
    """Return the options of agents on machines of a provider. A machine that no cloud rents has none."""
    known = _CATALOGS.get(provider)
    return known.agent_options if known else {}


def providers() -> tuple[str, ...]:
    """Return the names that the `type` of a pool's section may have."""
    return tuple(_CATALOGS)


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
        catalog = _CATALOGS[self.type.provider]
        factor = Decimal(1) if self.is_exact else Decimal(catalog.regions[region])
        ratio = catalog.spot_ratio if capacity is Capacity.SPOT else Decimal(1)
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
    return name in _CATALOGS[provider].spot_only


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
    regions = _CATALOGS[provider].regions
    if region not in regions:
        raise _unknown(region, regions, f"It must be a region of {provider}")


def region_of(provider: str, zone: str) -> str:
    """Return the region of a zone. Raises Unknown."""
    catalog = _CATALOGS[provider]
    match = catalog.zone.fullmatch(zone)
    if match is None:
        raise Unknown(
            f"{zone!r} is no zone of {provider}; zones are written like {catalog.zone_example}"
        )
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


def _types(provider: str) -> Types:
    return _CATALOGS[provider].types()
