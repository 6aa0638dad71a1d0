"""Warn of pools that will hardly do what they are meant to, as far as a configuration shows it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from det_controlplane.core.config.cluster import ClusterConfig
    from det_controlplane.core.config.pools import Pool


def warnings(config: "ClusterConfig", provider: str, region: str) -> Iterator[str]:
    """Warn of pools of a cluster that a provider has in one of its regions."""
    for pool in config.resource_pools:
        yield from _elsewhere(pool, provider, region)
        yield from _rents_nothing(pool)


def as_rented(pool: "Pool") -> "Pool":
    """Return a pool with the offers alone that it may rent at the list's prices: none above its limits."""
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
    """Warn of a pool that rents in the cluster's cloud, but never in its region."""
    sections = [section for section in pool.sections if section.provider == provider]
    regions = sorted({name for section in sections for name in section.regions})
    if regions and region not in regions:
        yield (
            f"pool {pool.pool_name} rents in {', '.join(regions)}, while the cluster and its bucket are in {region}:"
            f" the clouds charge for traffic between regions. A pool that names no region rents in {region}"
        )


def _rents_nothing(pool: "Pool") -> Iterator[str]:
    """Warn of a pool whose limits leave it no machine."""
    if not pool.offers or as_rented(pool).offers:
        return
    if not pool.limits.max_instances:
        yield f"pool {pool.pool_name} rents nothing: it may have 0 machines"
        return
    cheapest = min(pool.offers, key=lambda offer: offer.price_usd_hour)
    limits = (cheapest.max_price_usd_hour, pool.limits.max_hourly_cost)
    limit = min(limit for limit in limits if limit is not None)
    yield (
        f"pool {pool.pool_name} rents nothing while prices are about those of the list: an hour of its cheapest machine"
        f" ({cheapest.machine_type}, {cheapest.capacity.value}) costs ${cheapest.price_usd_hour:.2f}, and it may cost"
        f" ${limit:.2f}"
    )
