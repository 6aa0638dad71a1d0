"""Read the accounts that tasks have on machines (agentUserGroup): of a user, and of a workspace."""

from dataclasses import dataclass
from typing import Any

from det_controlplane.api.errors import BadRequest

_LARGEST_ID = 2**31 - 1


@dataclass(frozen=True)
class AgentUserGroup:
    """The account that tasks have on machines, in a body."""

    agent_uid: int | None = None
    agent_gid: int | None = None
    agent_user: str | None = None
    agent_group: str | None = None

    def values(self) -> dict[str, Any]:
        """Return the fields that have a value; raise BadRequest for an id outside the range of Linux."""
        for name, number in (("agentUid", self.agent_uid), ("agentGid", self.agent_gid)):
            if number is not None and not 0 <= number <= _LARGEST_ID:
                limits = f"from 0 to {_LARGEST_ID}"
                raise BadRequest(f"agentUserGroup.{name} must be {limits}, not {number}")
        fields = {
            "agentUid": self.agent_uid,
            "agentGid": self.agent_gid,
            "agentUser": self.agent_user,
            "agentGroup": self.agent_group,
        }
        return {name: value for name, value in fields.items() if value is not None}
