"""Estimate the cost of an experiment on the machines that its pool rents."""

import math
from collections.abc import Iterator
from typing import Any

from determined.common.http import NotFoundError, Session

from det_cli.connection import V1
from det_cli.times import local

SHOWN_OFFERS = 3


def estimate(session: Session, config: dict[str, Any]) -> Iterator[str]:
    """Tell trials, slots and the range of prices of a resolved configuration; nothing where no machine is rented."""
    resources = config.get("resources") or {}
    pool = _pool(session, str(resources.get("resource_pool") or ""))
    slots = int(resources.get("slots_per_trial") or 0)
    single = bool(resources.get("is_single_node"))
    if pool is None or not slots:
        return
    prices = sorted(
        (_of_trial(offer, slots), _name(offer) + _source(offer, pool))
        for offer in pool["offers"]
        if _is_rented(offer) and _holds(offer, slots, single, pool)
    )
    if not prices:
        yield (
            f"No offer of pool {pool['name']} holds a trial of {slots} slots within its price caps;"
            f" see `det pool describe {pool['name']}`."
        )
        return
    answer = session.post(V1 + "/preview-hp-search", {"config": config})
    trials = sum(int(trial["count"]) for trial in answer["summary"]["trials"])
    counted = "1 slot" if slots == 1 else f"{slots} slots"
    each = f"{trials} trials with {counted} each" if trials > 1 else f"One trial with {counted}"
    yield f"{each}. An hour of one trial in pool {pool['name']}, cheapest first:"
    for price, name in prices[:SHOWN_OFFERS]:
        yield f"  ${price:.2f}  {name}"
    least, most = prices[0][0] * trials, prices[-1][0] * trials
    costs = " to ".join(dict.fromkeys((f"${least:.2f}", f"${most:.2f}")))
    yield f"An hour of training in every trial costs {costs}; --max-cost bounds it."


def _pool(session: Session, name: str) -> "dict[str, Any] | None":
    try:
        pools = session.get(V1 + "/rented-pools")["pools"]
    except NotFoundError:
        return None
    if pools and not name:
        name = _default_pool(session)
    return next((pool for pool in pools if pool["name"] == name), None)


def _default_pool(session: Session) -> str:
    found = session.get(V1 + "/resource-pools")["resourcePools"]
    return next((pool["name"] for pool in found if pool["defaultComputePool"]), "")


def _is_rented(offer: dict[str, Any]) -> bool:
    """Return whether the cloud has the offer, at a price that its section allows."""
    cap = offer.get("maxPriceUsdHour")
    return offer.get("isOffered", True) and (cap is None or offer["priceUsdHour"] <= cap)


def _holds(offer: dict[str, Any], slots: int, single: bool, pool: dict[str, Any]) -> bool:
    """Return whether one machine holds a trial, or some equal ones that are wholly its own."""
    if not offer["slots"] or slots <= offer["slots"]:
        return bool(offer["slots"])
    mixes = pool.get("allowHeterogeneousFits", False)
    return not single and (mixes or slots % offer["slots"] == 0)


def _of_trial(offer: dict[str, Any], slots: int) -> float:
    """Return the price of a trial's share: of one machine, or of as many whole ones as it needs."""
    machines = (
        slots / offer["slots"] if slots <= offer["slots"] else math.ceil(slots / offer["slots"])
    )
    return float(offer["priceUsdHour"] * machines)


def _name(offer: dict[str, Any]) -> str:
    place = offer["zone"] or offer["region"]
    return f"{offer['provider']} {place} {offer['machineType']} {offer['capacity']}"


def _source(offer: dict[str, Any], pool: dict[str, Any]) -> str:
    """Say where a price is from: what the cloud told, and when, or a list that may be old."""
    source = offer.get("priceFrom")
    if source == "cloud":
        return f" (told by the cloud at {local(offer['priceReadAt'])})"
    return f" (list price of {pool['priceListOf']})" if source == "list" else ""
