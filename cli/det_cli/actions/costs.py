"""Cost columns for tables of experiments, trials and users."""

from typing import Any

from determined.common.http import ForbiddenError, NotFoundError, Session

from det_cli.connection import V1
from det_cli.render import Column, say

_COSTS: tuple[Column, ...] = (
    ("Cost $", lambda item: f"{item['costUsd']:.2f}"),
    ("Slot Hours", lambda item: f"{item['slotHours']:.2f}"),
)


def of_users(session: Session, users: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Add the costs of each user's work to the items and return the columns.

    Returns () if no work ran on rented machines, or if the caller may not read costs."""
    try:
        costs = session.get(f"{V1}/costs/users")["costs"]
    except NotFoundError:
        return ()
    except ForbiddenError as e:
        say(f"not shown: costs of users: {e.message}")
        return ()
    by_name = {cost["username"]: cost for cost in costs}
    for user in users:
        cost = by_name.get(user["username"], {})
        user.update(costUsd=cost.get("costUsd", 0.0), slotHours=cost.get("slotHours", 0.0))
    return _COSTS if costs else ()


def add(session: Session, kind: str, items: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Add costs to the items and return the columns. Return () if no item used a rented machine."""
    if not items:
        return ()
    params = {"ids": [item["id"] for item in items]}
    try:
        costs = session.get(f"{V1}/costs/{kind}", params)["costs"]
    except NotFoundError:
        return ()  # an older cluster without the costs route
    by_id = {cost["id"]: cost for cost in costs}
    for item in items:
        cost = by_id[item["id"]]
        item.update(costUsd=cost["costUsd"], slotHours=cost["slotHours"])
    return _COSTS if any(item["costUsd"] for item in items) else ()
