"""Warnings about pools of a local cluster that rent machines, and about machines that outlive it."""

from collections.abc import Iterator

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.cluster_check import reach_warnings
from det_controlplane.services.maintenance.gauges import Rented


def warnings(config: ClusterConfig, url: str) -> Iterator[str]:
    """Warn of rented pools with machines that cannot reach the API at its default URL."""
    for pool in config.resource_pools:
        yield from reach_warnings(config, pool, url)


def warnings_at_stop(rented: Rented, *, is_deleted: bool) -> Iterator[str]:
    """Warn of machines that still cost money after the cluster has stopped."""
    if not rented.machines:
        return
    machines = "1 machine" if rented.machines == 1 else f"{rented.machines} machines"
    price = f"; ${rented.usd_per_hour:.2f} per hour" if rented.usd_per_hour else ""
    yield (
        f"{machines} may still be rented ({', '.join(rented.places)}{price})."
        " Without the cluster they finish their work, and shut down after half an hour without work"
    )
    if is_deleted:
        yield "the deleted database had their records: check in the console of the cloud that they end"
    else:
        yield "`cluster-up` manages them again; `det instance terminate ID` then ends a machine at once"
