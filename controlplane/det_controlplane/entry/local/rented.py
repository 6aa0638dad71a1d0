"""Warn of pools of a local cluster that rent machines which can reach neither its API nor its checkpoints."""

from collections.abc import Iterator

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.cluster_check import reach_warnings


def warnings(config: ClusterConfig, url: str) -> Iterator[str]:
    """Warn of rented pools with machines that cannot reach the API at its default URL."""
    for pool in config.resource_pools:
        yield from reach_warnings(config, pool, url)
