"""Agents that cannot start containers report it: they get no work, and waiting jobs show the reason."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from tests.support.api import Api, ApiResponse, Caller, config_of, create

REASON = "3 containers in a row could not be started: no space left on device"


class Agent:
    def __init__(
        self, api: Api, out_of_service: str = "", slots: int = 1, name: str = "gpu-1"
    ) -> None:
        self._incarnation = str(uuid.uuid4())
        body = {
            "agent_id": name, "agent_key": "key", "incarnation": self._incarnation, "runtime": "docker",
            "slots": [{"id": n, "type": "cpu", "brand": "Artificial"} for n in range(slots)],
            "out_of_service": out_of_service,
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
        containers: list[Any] = self._caller.post("/agents/v1/poll", body)["containers"]
        return containers


def reasons(user: Caller, experiment_id: int) -> list[tuple[str, str]]:
    stored_reasons = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    return [(r["code"], r["sentence"]) for r in stored_reasons]


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


def test_api_shows_an_agent_out_of_service(api: Api, user: Caller) -> None:
    agent = Agent(api)
    assert user.get("/api/v1/agents/gpu-1")["agent"]["enabled"] is True
    agent.poll(REASON)
    stored_agent = user.get("/api/v1/agents/gpu-1")["agent"]
    assert (stored_agent["enabled"], stored_agent["outOfService"]) == (False, REASON)
    agent.poll()
    stored_agent = user.get("/api/v1/agents/gpu-1")["agent"]
    assert (stored_agent["enabled"], stored_agent["outOfService"]) == (True, "")


def test_wait_reason_is_updated_when_an_agent_leaves_service(api: Api, user: Caller) -> None:
    agent = Agent(api)
    agent.poll(REASON)
    experiment_id = create(user, activate=True)
    api.tick()
    assert agent.poll(REASON) == []
    assert reasons(user, experiment_id)[0][0] == "AGENT_OUT_OF_SERVICE"


@pytest.mark.parametrize(
    ("drain", "counts"),
    [
        (False, {"disabled": 2, "draining": 0}),
        (True, {"disabled": 0, "draining": 2}),
    ],
)
def test_slots_of_a_disabled_agent_are_shown_as_disabled(
    api: Api, admin: Caller, drain: bool, counts: dict[str, int]
) -> None:
    Agent(api, slots=2)
    admin.post("/api/v1/agents/gpu-1/disable", {"drain": drain})
    agent = admin.get("/api/v1/agents/gpu-1")["agent"]
    slot_states = [(slot["enabled"], slot["draining"]) for slot in agent["slots"].values()]
    assert slot_states == [(False, drain), (False, drain)]
    stats = agent["slotStats"]["typeStats"]["TYPE_CPU"]
    assert {key: stats[key] for key in counts} == counts
    admin.post("/api/v1/agents/gpu-1/enable", {})
    agent = admin.get("/api/v1/agents/gpu-1")["agent"]
    assert [slot["enabled"] for slot in agent["slots"].values()] == [True, True]


def test_slots_of_an_agent_out_of_service_are_not_enabled(api: Api, user: Caller) -> None:
    Agent(api).poll(REASON)
    (slot,) = user.get("/api/v1/agents/gpu-1")["agent"]["slots"].values()
    assert (slot["enabled"], slot["draining"]) == (False, False)


@pytest.mark.parametrize("launch_error", [True, False])
def test_rejects_single_agent_requests_larger_than_every_agent(
    api: Api, user: Caller, launch_error: bool
) -> None:
    api.ctx.config = replace(api.ctx.config, launch_error=launch_error)
    Agent(api, slots=2, name="one")
    Agent(api, slots=3, name="two")

    def submit(**resources: object) -> ApiResponse:
        config = config_of(resources=resources)
        return user.ask("POST", "/api/v1/experiments", {"config": config, "activate": False})

    assert submit(slots_per_trial=3, is_single_node=True).status == 200
    assert submit(slots_per_trial=4).status == 200
    response = submit(slots_per_trial=4, is_single_node=True)
    assert response.status == 400
    assert (
        "resources.is_single_node: request unfulfillable: asks for 4 slots of one agent"
        in response.error
    )
    assert "has 3" in response.error
