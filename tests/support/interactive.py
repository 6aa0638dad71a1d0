"""Launch notebooks, shells and TensorBoards, and let them run on an agent that the test plays."""

from typing import Any

from tests.support.api import Api, Caller
from tests.support.played_agent import PlayedAgent

V = "/api/v1"


def launch(caller: Caller, kind: str, **body: Any) -> dict[str, Any]:
    response: dict[str, Any] = caller.post(f"{V}/{kind}s", {"config": {}, **body})
    return response


def start(api: Api, agent: PlayedAgent) -> dict[str, Any]:
    """Run the only queued task. Return the specification of its container."""
    api.tick()
    (order,) = agent.poll()
    agent.poll()
    spec: dict[str, Any] = order["spec"]
    return spec


def somebody_else(api: Api, admin: Caller) -> Caller:
    user = {"username": "grace", "active": True}
    admin.post(f"{V}/users", {"user": user, "password": "Aa345678", "isHashed": False})
    return api.signed_in("grace", "Aa345678")
