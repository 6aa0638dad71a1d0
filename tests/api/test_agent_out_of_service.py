"""Agents that cannot start containers say so: they get no work, and those who wait learn why."""

import uuid
from typing import Any

from tests.support.api import Api, Caller, create

REASON = "3 containers in a row could not be started: no space left on device"


class Agent:
    def __init__(self, api: Api, out_of_service: str = "") -> None:
        self._incarnation = str(uuid.uuid4())
        body = {
            "agent_id": "gpu-1", "agent_key": "key", "incarnation": self._incarnation, "runtime": "docker",
            "slots": [{"id": 0, "type": "cpu", "brand": "Artificial"}], "out_of_service": out_of_service,
            "proof": {"kind": "bootstrap_token", "token": api.ctx.bootstrap_token},
        }  # fmt: skip
        token = api.anonymous().post("/agents/v1/join", body)["agent_token"]
        self._caller, self._seq = api.with_token(token), 0

    def poll(self, out_of_service: str = "") -> list[Any]:
        self._seq += 1
        body = {
            "incarnation": self._incarnation, "seq": self._seq, "containers": [], "signals": [],
            "out_of_service": out_of_service,
        }  # fmt: skip
        found: list[Any] = self._caller.post("/agents/v1/poll", body)["containers"]
        return found


def reasons(user: Caller, experiment_id: int) -> list[tuple[str, str]]:
    found = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    return [(r["code"], r["sentence"]) for r in found]


def test_an_agent_that_joins_out_of_service_gets_no_work_until_it_returns(
    api: Api, user: Caller
) -> None:
    agent = Agent(api, REASON)
    experiment_id = create(user, activate=True)
    api.tick()
    assert agent.poll(REASON) == []
    ((code, sentence),) = reasons(user, experiment_id)
    assert code == "AGENT_OUT_OF_SERVICE"
    assert REASON in sentence
    agent.poll()
    api.tick()
    assert len(agent.poll()) == 1


def test_what_people_see_of_it(api: Api, user: Caller) -> None:
    agent = Agent(api)
    assert user.get("/api/v1/agents/gpu-1")["agent"]["enabled"] is True
    agent.poll(REASON)
    seen = user.get("/api/v1/agents/gpu-1")["agent"]
    assert (seen["enabled"], seen["outOfService"]) == (False, REASON)
    agent.poll()
    seen = user.get("/api/v1/agents/gpu-1")["agent"]
    assert (seen["enabled"], seen["outOfService"]) == (True, "")


def test_a_pool_is_looked_at_again_when_its_agent_leaves_service(api: Api, user: Caller) -> None:
    agent = Agent(api)
    agent.poll(REASON)
    experiment_id = create(user, activate=True)
    api.tick()
    assert agent.poll(REASON) == []
    assert reasons(user, experiment_id)[0][0] == "AGENT_OUT_OF_SERVICE"
