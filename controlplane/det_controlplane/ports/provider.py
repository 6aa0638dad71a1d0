"""The package of a cloud, which an entry point of the group `determined.providers` names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.provision.catalog import Catalog
from det_controlplane.ports.compute import Compute, Market
from det_controlplane.ports.identity import IdentityVerifier

GROUP = "determined.providers"
# The version of `compute.Compute`, `compute.Market`, `identity.IdentityVerifier` and this class. It grows with each
# change that breaks packages.
INTERFACE = 1

Sections = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Provider:
    """The parts of a cloud's package. The functions get the sections of all pools that rent there.

    Importing the module of a package must not load the SDK of its cloud; the functions may."""

    name: str  # the `type` of sections; lower case
    compute: Callable[[Sections], Compute]
    identity_verifiers: Callable[[Sections], Sequence[IdentityVerifier]]
    market: "Callable[[Sections], Market] | None" = None  # current prices and zones
    catalog: "Catalog | None" = None  # None: the control plane has the catalog itself
    interface: int = INTERFACE
