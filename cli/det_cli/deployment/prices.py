"""Compute the list price of a cluster a month, idle and with its pools full: no discounts, credits or taxes."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

READ_ON = "2026-11"
_HOURS = Decimal(730)

# Dollars a month of what is there while nobody trains.
AWS_IDLE = (
    ("secret of the database's password", Decimal("0.40")),
    ("database, paused: 1 GB of storage", Decimal("0.10")),
)
GCP_IDLE = (
    ("database db-f1-micro", Decimal("0.0105") * _HOURS),
    ("its 10 GB of storage", Decimal("1.70")),
    ("image of the control plane, 0.2 GB", Decimal("0.02")),
)


def month(idle: Sequence[tuple[str, Decimal]], config: Mapping[str, Any]) -> Iterator[str]:
    """Tell what a cluster costs a month, idle and busy."""
    from det_controlplane.core.config.cluster import load_cluster

    total = sum((usd for _, usd in idle), Decimal(0))
    parts = ", ".join(f"{what} ${usd:.2f}" for what, usd in idle)
    yield f"A month idle costs about ${total:.2f}: {parts}"
    for pool in load_cluster(config).resource_pools:
        if not pool.offers:
            continue
        cheapest = min(pool.offers, key=lambda offer: offer.price_usd_hour)
        most = max(offer.price_usd_hour for offer in pool.offers) * pool.limits.max_instances
        if pool.limits.max_hourly_cost is not None:
            most = min(most, pool.limits.max_hourly_cost)
        yield (
            f"Busy, {pool.pool_name} costs ${cheapest.price_usd_hour:.2f} an hour and machine"
            f" ({cheapest.machine_type}, {cheapest.capacity.value}), at most ${most:.2f} an hour with"
            f" {pool.limits.max_instances} machines: ${most * _HOURS:,.0f} for a month without a pause"
        )
    yield f"List prices of {READ_ON}; disks, traffic and logs are not counted. `det budget` bounds what work costs"
