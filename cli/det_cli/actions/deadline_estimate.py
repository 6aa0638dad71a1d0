"""Estimate whether an experiment meets its deadline, and at what cost: simulated runs with the pool's spot history."""

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from determined.common.http import Session

from det_cli.actions import prices

if TYPE_CHECKING:
    from det_controlplane.core.provision.spot_spells import SpotOffer

_MOST_CPU_S = 0.8


def estimate(session: Session, config: dict[str, Any], hours: float, at_once: int) -> str:
    """Return a line about the deadline, or an empty text. `hours` is the length of all trials together, or 0."""
    from det_controlplane.core.config.moments import parse_moment
    from det_controlplane.core.provision.work_left import RESERVE, USUAL_STARTUP_H, earliest_end

    resources = config.get("resources") or {}
    if not resources.get("deadline"):
        return ""
    deadline = parse_moment(str(resources["deadline"]))
    when = f"{deadline:%a %Y-%m-%d %H:%M} UTC"
    work_h = float(resources.get("expected_hours") or hours / at_once)
    if not work_h:
        return f"{when}: unknown; set resources.expected_hours for an estimate"
    pool = prices.rented_pool(session, prices.pool_name(session, config))
    startup_h = float(pool.get("startupHours", USUAL_STARTUP_H)) if pool else 0.0
    now = datetime.now(timezone.utc)
    left_h = (deadline - now).total_seconds() / 3600
    if left_h < RESERVE * work_h + startup_h:
        earliest_s = earliest_end(now.timestamp(), work_h, startup_h)
        earliest = datetime.fromtimestamp(earliest_s, timezone.utc)
        return (
            f"{when} cannot be met; the earliest possible time is {earliest:%a %Y-%m-%d %H:%M} UTC"
        )
    offers, price = _offers(pool, resources) if pool else ([], 0.0)
    if not offers:
        return f"{when} can be met; the pool has no choice between spot and on demand"
    return when + _forecast(left_h, work_h, startup_h, offers, price * at_once)


def _forecast(
    left_h: float, work_h: float, startup_h: float, offers: "list[SpotOffer]", price: float
) -> str:
    from det_controlplane.core.provision.deadline_forecast import forecast

    until = time.process_time() + _MOST_CPU_S
    result = forecast(left_h, work_h, startup_h, offers, lambda: time.process_time() < until)
    in_time = round(result.on_time * result.runs)
    least, most = (f"${price * hours:.2f}" for hours in (result.least_h, result.most_h))
    return (
        f": in time in {in_time} of {result.runs} simulated runs; 95 % of them cost {least} to {most};"
        f" on demand alone ${price * result.on_demand_h:.2f}"
    )


def _offers(pool: dict[str, Any], resources: dict[str, Any]) -> "tuple[list[SpotOffer], float]":
    """Return the spot offers that fit a trial with their histories, and the hourly price of a trial on demand."""
    from det_controlplane.core.provision.spot_spells import EndCounts, SpotOffer

    priced = list(prices.trial_prices(pool, resources))
    on_demand = min((price for price, offer in priced if "spotHistory" not in offer), default=0.0)
    offers = []
    for number, (price, offer) in enumerate(priced):
        history = offer.get("spotHistory")
        if history and price < on_demand:
            spot = SpotOffer(
                str(number), price / on_demand, history["isAvailable"], history["ageHours"],
                EndCounts(history["losses"], history["expectedLosses"]),
                EndCounts(history["returns"], history["expectedReturns"]),
            )  # fmt: skip
            offers.append(spot)
    return offers, on_demand
