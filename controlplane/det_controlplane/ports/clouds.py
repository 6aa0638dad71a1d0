"""The clouds in which this cluster can rent machines."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.ports.identity import IdentityVerifier


class Clouds(Protocol):
    def prepare(self, pools: Iterable[Mapping[str, Any]]) -> list[str]:
        """Make the machine types of the clouds known that pools name, before their settings are read. Return the
        reasons why that failed."""
        ...

    def refusal(self, provider: str) -> str:
        """Return why this cluster cannot rent machines from a cloud, with the next step; empty if it can."""
        ...

    def identities(self, config: ClusterConfig) -> Mapping[str, IdentityVerifier]:
        """Return the verifiers of the machines that a configuration's pools rent, by kind of proof."""
        ...
