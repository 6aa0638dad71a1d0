"""Read the accounts that tasks have on machines (agentUserGroup): of a user, and of a workspace."""

from typing import Any

from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest

_LARGEST_ID = 2**31 - 1


def agent_user_of(body: Body) -> dict[str, Any] | None:
    """Return the account that tasks have on machines, as far as it is given."""
    if body.raw("agentUserGroup") is None:
        return None
    group = body.body("agentUserGroup")
    found: dict[str, Any] = {}
    for name in ("agentUid", "agentGid"):
        number = group.optional_integer(name)
        if number is not None and not 0 <= number <= _LARGEST_ID:
            raise BadRequest(f"agentUserGroup.{name} must be from 0 to {_LARGEST_ID}, not {number}")
        found[name] = number
    for name in ("agentUser", "agentGroup"):
        found[name] = group.optional_text(name)
    return {name: value for name, value in found.items() if value is not None}
