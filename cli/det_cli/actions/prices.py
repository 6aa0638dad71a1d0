"""Estimate the hourly cost of an experiment on the rented machines of its pool."""

import math
from collections.abc import Iterator
from typing import Any

from determined.common.http import NotFoundError, Session

from det_cli.connection import V1
from det_cli.render import counted, local_time

SHOWN_OFFERS = 3


def estimate(session: Session, config: dict[str, Any], trials: int, hours: float) -> Iterator[str]:
    """Yield lines about the cost of an experiment. `hours` is the length of all trials together, or 0."""
    resources = config.get("resources") or {}
    slots = int(resources.get("slots_per_trial") or 0)
    name = pool_name(session, config)
    pool = rented_pool(session, name)
    if pool is None:
        yield f"$0.00: pool {name} rents no machines"
        return
    if not slots:
        yield "unknown: trials without slots share machines"
        return
    prices = sorted(
        (price, _name(offer) + _source(offer, pool))
        for price, offer in trial_prices(pool, resources)
    )
    if not prices:
        yield (
            f"No offer of pool {pool['name']} within its price caps fits a trial with {counted(slots, 'slot')};"
            f" see `det pool describe {pool['name']}`."
        )
        return
    least, most = prices[0][0], prices[-1][0]
    if hours:
        yield f"{_range(hours * least, hours * most)} for all trials; --max-cost limits it"
    else:
        yield (
            f"One hour of training for every trial costs {_range(trials * least, trials * most)};"
            " --max-cost limits the cost."
        )
    yield f"Hourly price of one trial in pool {pool['name']}, cheapest first:"
    for price, offer_name in prices[:SHOWN_OFFERS]:
        yield f"  ${price:.2f}  {offer_name}"


def trial_prices(
    pool: dict[str, Any], resources: dict[str, Any]
) -> "Iterator[tuple[float, dict[str, Any]]]":
    """Yield the hourly price of a trial for each offer that fits."""
    slots = int(resources.get("slots_per_trial") or 0)
    single_node = bool(resources.get("is_single_node"))
    for offer in pool["offers"] if slots else ():
        if _is_available(offer) and _fits(offer, slots, single_node, pool):
            yield _trial_price(offer, slots), offer


def _range(least: float, most: float) -> str:
    return " to ".join(dict.fromkeys((f"${least:.2f}", f"${most:.2f}")))


def pool_name(session: Session, config: dict[str, Any]) -> str:
    """Return the pool of an experiment: the one of its configuration, or the default pool."""
    return str((config.get("resources") or {}).get("resource_pool") or "") or _default_pool(session)


def rented_pool(session: Session, name: str) -> "dict[str, Any] | None":
    """Return a pool that rents machines, with its offers; None for other pools."""
    try:
        pools = session.get(V1 + "/rented-pools")["pools"]
    except NotFoundError:
        return None
    return next((pool for pool in pools if pool["name"] == name), None)


def _default_pool(session: Session) -> str:
    try:
        pools = session.get(V1 + "/resource-pools")["resourcePools"]
    except NotFoundError:
        return ""
    return next((pool["name"] for pool in pools if pool["defaultComputePool"]), "")


def _is_available(offer: dict[str, Any]) -> bool:
    """Return True if the cloud has the offer and its price is within the pool's price cap."""
    cap = offer.get("maxPriceUsdHour")
    return offer.get("isOffered", True) and (cap is None or offer["priceUsdHour"] <= cap)


def _fits(offer: dict[str, Any], slots: int, single: bool, pool: dict[str, Any]) -> bool:
    """Return True if a trial fits on one machine, or on several whole machines of this type."""
    if not offer["slots"] or slots <= offer["slots"]:
        return bool(offer["slots"])
    mixes = pool.get("allowHeterogeneousFits", False)
    return not single and (mixes or slots % offer["slots"] == 0)


def _trial_price(offer: dict[str, Any], slots: int) -> float:
    """Return the hourly price of a trial: a share of one machine, or several whole machines."""
    machines = (
        slots / offer["slots"] if slots <= offer["slots"] else math.ceil(slots / offer["slots"])
    )
    return float(offer["priceUsdHour"] * machines)


def _name(offer: dict[str, Any]) -> str:
    place = offer["zone"] or offer["region"]
    return f"{offer['provider']} {place} {offer['machineType']} {offer['capacity']}"


def _source(offer: dict[str, Any], pool: dict[str, Any]) -> str:
    """Return the source of a price: the cloud's price API with a time, or a list that may be outdated."""
    source = offer.get("priceFrom")
    if source == "cloud":
        return f" (cloud price of {local_time(offer['priceReadAt'])})"
    return f" (list price of {pool['priceListOf']})" if source == "list" else ""
