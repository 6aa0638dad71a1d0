"""Estimate the hourly cost of an experiment on the rented machines of its pool."""

import math
from collections.abc import Iterator
from typing import Any

from determined.common.http import NotFoundError, Session

from det_cli.connection import V1
from det_cli.render import local_time

SHOWN_OFFERS = 3


def estimate(session: Session, config: dict[str, Any]) -> Iterator[str]:
    """Yield lines with the trials, slots and prices of an experiment. A pool must rent machines."""
    resources = config.get("resources") or {}
    pool = _pool(session, str(resources.get("resource_pool") or ""))
    slots = int(resources.get("slots_per_trial") or 0)
    single_node = bool(resources.get("is_single_node"))
    if pool is None or not slots:
        return
    prices = sorted(
        (_trial_price(offer, slots), _name(offer) + _source(offer, pool))
        for offer in pool["offers"]
        if _is_available(offer) and _fits(offer, slots, single_node, pool)
    )
    if not prices:
        yield (
            f"No offer of pool {pool['name']} within its price caps fits a trial with {slots} slots;"
            f" see `det pool describe {pool['name']}`."
        )
        return
    response = session.post(V1 + "/preview-hp-search", {"config": config})
    trials = sum(int(trial["count"]) for trial in response["summary"]["trials"])
    slot_text = "1 slot" if slots == 1 else f"{slots} slots"
    each = f"{trials} trials with {slot_text} each" if trials > 1 else f"One trial with {slot_text}"
    yield f"{each}. Hourly price of one trial in pool {pool['name']}, cheapest first:"
    for price, name in prices[:SHOWN_OFFERS]:
        yield f"  ${price:.2f}  {name}"
    least, most = prices[0][0] * trials, prices[-1][0] * trials
    costs = " to ".join(dict.fromkeys((f"${least:.2f}", f"${most:.2f}")))
    yield f"One hour of training for every trial costs {costs}; --max-cost limits the cost."


def _pool(session: Session, name: str) -> "dict[str, Any] | None":
    try:
        pools = session.get(V1 + "/rented-pools")["pools"]
    except NotFoundError:
        return None
    if pools and not name:
        name = _default_pool(session)
    return next((pool for pool in pools if pool["name"] == name), None)


def _default_pool(session: Session) -> str:
    pools = session.get(V1 + "/resource-pools")["resourcePools"]
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
