"""Containers on a Docker engine."""

from collections.abc import Callable, Sequence

from det_agent.messages import Slot
from det_agent.runtime import Runtime, StartFailed


def connect_docker(
    agent_id: str, cluster_id: Callable[[], str], slots: Sequence[Slot], required: bool
) -> Runtime | None:
    """None when no engine answers and none is required."""
    if required:
        raise StartFailed("agent_error", "no Docker engine answers")
    return None
