"""Warnings about pools with settings that are probably mistakes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from det_controlplane.core.config.cluster import ClusterConfig
    from det_controlplane.core.config.pools import Pool


def warnings(config: "ClusterConfig", provider: str, region: str) -> Iterator[str]:
    """Yield warnings about the pools of a cluster in a region of a provider."""
    for pool in config.resource_pools:
        yield from _elsewhere(pool, provider, region)
        yield from _rents_nothing(pool)


def as_rented(pool: "Pool") -> "Pool":
    """Return a pool with only the offers that are within its limits at list prices."""
    limits = pool.limits
    offers = tuple(
        offer
        for offer in pool.offers
        if limits.max_instances
        and (offer.max_price_usd_hour is None or offer.price_usd_hour <= offer.max_price_usd_hour)
        and (limits.max_hourly_cost is None or offer.price_usd_hour <= limits.max_hourly_cost)
    )
    return replace(pool, offers=offers)


def _elsewhere(pool: "Pool", provider: str, region: str) -> Iterator[str]:
    """Yield a warning if a pool rents in the cluster's cloud, but only in other regions."""
    sections = [section for section in pool.sections if section.provider == provider]
    regions = sorted({name for section in sections for name in section.regions})
    if regions and region not in regions:
        yield (
            f"pool {pool.pool_name} rents in {', '.join(regions)}, but the cluster and its bucket are in {region}:"
            f" traffic between regions is billed. A pool without a region setting rents in {region}"
        )


def _rents_nothing(pool: "Pool") -> Iterator[str]:
    """Yield a warning if the limits of a pool exclude all machines."""
    if not pool.offers or as_rented(pool).offers:
        return
    if not pool.limits.max_instances:
        yield f"pool {pool.pool_name} rents no machines: its max_instances is 0"
        return
    cheapest = min(pool.offers, key=lambda offer: offer.price_usd_hour)
    limits = (cheapest.max_price_usd_hour, pool.limits.max_hourly_cost)
    limit = min(limit for limit in limits if limit is not None)
    yield (
        f"pool {pool.pool_name} rents no machines at list prices: its cheapest machine"
        f" ({cheapest.machine_type}, {cheapest.capacity.value}) costs ${cheapest.price_usd_hour:.2f} per hour, and its"
        f" limit is ${limit:.2f}"
    )
