"""Warn of pools that will hardly do what they are meant to, as far as a configuration shows it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from det_controlplane.core.config.cluster import ClusterConfig
    from det_controlplane.core.config.pools import Pool


def warnings(config: "ClusterConfig", provider: str, region: str) -> Iterator[str]:
    """Warn of pools of a cluster that a provider has in one of its regions."""
    for pool in config.resource_pools:
        yield from _elsewhere(pool, provider, region)


def _elsewhere(pool: "Pool", provider: str, region: str) -> Iterator[str]:
    """Warn of a pool that rents in the cluster's cloud, but never in its region."""
    sections = [section for section in pool.sections if section.provider == provider]
    regions = sorted({name for section in sections for name in section.regions})
    if regions and region not in regions:
        yield (
            f"pool {pool.pool_name} rents in {', '.join(regions)}, while the cluster and its bucket are in {region}:"
            f" the clouds charge for traffic between regions. A pool that names no region rents in {region}"
        )
