"""Show the costs of experiments and trials beside their other columns."""

from typing import Any

from determined.common.http import ForbiddenError, NotFoundError, Session

from det_cli.connection import V1
from det_cli.render import Column, say

_COSTS: tuple[Column, ...] = (
    ("Cost $", lambda item: f"{item['costUsd']:.2f}"),
    ("Slot Hours", lambda item: f"{item['slotHours']:.2f}"),
)


def of_users(session: Session, users: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Add to users what their work cost; return the columns, none where nothing ran on a rented machine.

    Users are seen by everybody, their costs are not."""
    try:
        found = session.get(f"{V1}/costs/users")["costs"]
    except NotFoundError:
        return ()
    except ForbiddenError as e:
        say(f"not shown: costs of users: {e.message}")
        return ()
    by_name = {cost["username"]: cost for cost in found}
    for user in users:
        cost = by_name.get(user["username"], {})
        user.update(costUsd=cost.get("costUsd", 0.0), slotHours=cost.get("slotHours", 0.0))
    return _COSTS if found else ()


def add(session: Session, kind: str, items: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Add costs to items of a kind; return their columns, none where nothing ran on a rented machine."""
    if not items:
        return ()
    params = {"ids": [item["id"] for item in items]}
    try:
        found = session.get(f"{V1}/costs/{kind}", params)["costs"]
    except NotFoundError:
        return ()  # a cluster that does not know costs
    by_id = {cost["id"]: cost for cost in found}
    for item in items:
        cost = by_id[item["id"]]
        item.update(costUsd=cost["costUsd"], slotHours=cost["slotHours"])
    return _COSTS if any(item["costUsd"] for item in items) else ()
