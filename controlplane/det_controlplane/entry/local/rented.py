"""Warn of pools of a local cluster that rent machines which can reach neither its API nor its checkpoints."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from det_controlplane.core.config.cluster import ClusterConfig

_OF_THIS_MACHINE = ("shared_fs", "directory")


def warnings(config: ClusterConfig, url: str) -> Iterator[str]:
    """Warn of rented pools with machines that cannot reach the API at its default URL."""
    storage = str((config.checkpoint_storage or {}).get("type") or "")
    host = urlsplit(url).hostname or ""
    is_loopback = host == "localhost" or host.startswith("127.")
    for pool in config.resource_pools:
        sections = [section.settings for section in pool.sections]
        if storage in _OF_THIS_MACHINE and not all(s.get("startup_script") for s in sections):
            yield (
                f"machines of pool {pool.pool_name} cannot use checkpoint_storage of type {storage}, which is a"
                " directory of this machine: set a bucket (type s3 or gcs), or mount it in their startup_script"
            )
        if is_loopback and not all(s.get("master_url") for s in sections):
            yield (
                f"machines of pool {pool.pool_name} cannot join: {url} is the API's address only on this machine:"
                " start the cluster with --host 0.0.0.0, and set master_url of the pool's section to the API's address"
            )
