"""The garage as a provider of machines: its name, its machine types and the functions that make its parts.

Only names and tables are loaded here. The functions load the rest when a pool rents from the garage.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from det_controlplane.core.provision.catalog import Catalog
from det_controlplane.core.provision.offers import MachineType
from det_controlplane.ports.compute import Compute
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.ports.provider import Provider
from pydantic import BaseModel, Field

FOLDER_VARIABLE = "GARAGE_FOLDER"


class Settings(BaseModel):
    """The keys of a pool's section that only the garage has."""

    niceness: int = Field(default=0, ge=0, le=19)  # of the processes of its machines


def _types() -> Mapping[str, tuple[MachineType, Decimal]]:
    """Return each type with its slots, processors and memory, and its price per hour."""
    sizes = {"bench": (1, 2, 4, "0.10"), "lift": (2, 4, 8, "0.20")}
    return {
        name: (MachineType("garage", name, slots, "", 0, cpus, gib), Decimal(price))
        for name, (slots, cpus, gib, price) in sizes.items()
    }


CATALOG = Catalog(
    provider="garage",
    types=_types,
    regions={"home": 1},  # prices there are the list prices times 1
    zone=re.compile(r"(home)-[ab]"),
    zone_example="home-a",
    spot_ratio=Decimal("0.5"),
    settings=Settings,
    agent_options={
        "identity": "command",
        "identity_command": [sys.executable, "-m", "det_provider_garage.identity"],
    },
)


def folder() -> Path:
    """Return where the garage keeps its machines. Real clouds have an address and credentials instead."""
    return Path(os.environ.get(FOLDER_VARIABLE) or Path.home() / ".garage")


def compute(sections: Sequence[Mapping[str, Any]]) -> Compute:
    from det_provider_garage.garage import Garage

    return Garage(folder())


def identity_verifiers(sections: Sequence[Mapping[str, Any]]) -> Sequence[IdentityVerifier]:
    from det_provider_garage.identity import GarageVerifier

    return (GarageVerifier(folder()),)


PROVIDER = Provider("garage", compute, identity_verifiers, catalog=CATALOG)
