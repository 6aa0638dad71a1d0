"""The pool for the jobs of a rehearsal, and the prices of its machines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from det_cli.deployment.pool_checks import as_rented
from det_cli.deployment.prices import ControlPlaneCost
from det_cli.deployment.rehearsal.plan import Rates
from det_cli.errors import UsageError

if TYPE_CHECKING:
    from det_controlplane.core.config.pools import Pool


@dataclass(frozen=True)
class ChosenPool:
    """The pool of a rehearsal, and the slots per job."""

    name: str
    slots: int
    rents_spot: bool
    rates: Rates


def choose(
    config: Mapping[str, Any], provider: str, name: str, control_plane: ControlPlaneCost
) -> ChosenPool:
    """Return the named pool, or the cheapest pool with spot machines in the cluster's cloud. Raises UsageError."""
    from det_controlplane.core.config.cluster import load_cluster

    loaded = load_cluster(config)
    pools = {pool.pool_name: as_rented(pool) for pool in loaded.resource_pools}
    rented = {key: pool for key, pool in pools.items() if _runs_jobs(pool, provider)}
    if not rented:
        raise UsageError(
            "no pool of the cluster rents machines in the cluster's cloud for jobs",
            "a pool without GPUs needs max_aux_containers_per_agent above 0, which is the default;"
            f" `det deploy {provider} up` without resource_pools in --config creates a GPU pool",
        )
    if name and name not in rented:
        raise UsageError(
            f"no pool {name} rents machines in the cluster's cloud for jobs",
            f"suitable pools: {', '.join(rented)}",
        )
    pool = rented[name] if name else min(rented.values(), key=_preference)
    aux = pools.get(loaded.default_aux_resource_pool)
    rates = Rates(
        machine=_highest_price(pool), aux_machine=_highest_price(aux), awake=control_plane.busy,
        idle=control_plane.idle,
    )  # fmt: skip
    slots = 1 if any(offer.slots for offer in pool.offers) else 0
    return ChosenPool(pool.pool_name, slots, _rents_spot(pool), rates)


def _runs_jobs(pool: "Pool", provider: str) -> bool:
    """Return True if a pool rents in a cloud and can run jobs there, with or without slots."""
    offers = [offer for offer in pool.offers if offer.provider == provider]
    has_slots = any(offer.slots for offer in offers)
    return bool(offers) and (has_slots or pool.max_aux_containers_per_agent > 0)


def _rents_spot(pool: "Pool") -> bool:
    return any(offer.capacity.value == "spot" for offer in pool.offers)


def _preference(pool: "Pool") -> tuple[bool, bool, float]:
    """Return the sort key of a pool: spot before on-demand, then pools with slots, then the price."""
    has_slots = any(offer.slots for offer in pool.offers)
    cheapest = min(float(offer.price_usd_hour) for offer in pool.offers)
    return not _rents_spot(pool), not has_slots, cheapest


def _highest_price(pool: "Pool | None") -> float:
    """Return the highest machine price of a pool, or 0 if it rents no machines."""
    offers = pool.offers if pool is not None else ()
    return max((float(offer.price_usd_hour) for offer in offers), default=0.0)
