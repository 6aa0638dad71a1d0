"""Agents that change pool without being installed again."""

from typing import Any

import pytest

from tests.support.api import Api, Caller, create
from tests.support.played_agent import PlayedAgent
from tests.support.rented import RentedCluster


def move(admin: Caller, pool: str = "reserved", **more: Any) -> dict[str, Any]:
    agent: dict[str, Any] = admin.post("/api/v1/agents/a1/move", {"pool": pool, **more})["agent"]
    return agent


def pool_of(admin: Caller) -> str:
    (pool,) = admin.get("/api/v1/agents/a1")["agent"]["resourcePools"]
    return str(pool)


def test_an_idle_agent_moves_at_once(
    api: Api, admin: Caller, user: Caller, agent: PlayedAgent
) -> None:
    assert move(admin)["resourcePools"] == ["reserved"]
    experiment = create(user, activate=True, resources={"resource_pool": "reserved"})
    api.tick()
    (order,) = agent.poll()
    assert int(order["spec"]["env"]["DET_EXPERIMENT_ID"]) == experiment


@pytest.mark.parametrize("drain", [False, True])
def test_a_disabled_agent_stays_disabled_in_its_new_pool(
    admin: Caller, agent: PlayedAgent, drain: bool
) -> None:
    assert admin.get("/api/v1/agents/a1")["agent"]["disabled"] is False
    admin.post("/api/v1/agents/a1/disable", {"agentId": "a1", "drain": drain})
    moved = move(admin)
    assert (moved["resourcePools"], moved["disabled"], moved["enabled"]) == (
        ["reserved"],
        True,
        False,
    )
    admin.post("/api/v1/agents/a1/enable")
    assert admin.get("/api/v1/agents/a1")["agent"]["disabled"] is False


def test_a_busy_agent_finishes_its_work_first(
    api: Api, admin: Caller, user: Caller, agent: PlayedAgent
) -> None:
    create(user, activate=True)
    api.tick()
    agent.poll()
    shown = move(admin)
    assert (shown["resourcePools"], shown["movesTo"], shown["draining"]) == (
        ["default"],
        "reserved",
        True,
    )
    waiting = create(user, activate=True)
    api.tick()
    (order,) = agent.poll()
    assert order["preempt"] is False
    assert agent.told["draining"] is True
    (why,) = user.get(f"/api/v1/why/experiment/{waiting}")["reasons"]
    assert why["code"] == "AGENT_DRAINING"
    assert "are about to move (a1 to pool reserved)" in why["sentence"]
    assert "`det agent enable a1` calls the move off" in why["sentence"]
    agent.poll("terminated", exit_code=0)
    api.tick()
    assert pool_of(admin) == "reserved"
    assert admin.get("/api/v1/agents/a1")["agent"]["movesTo"] is None


def test_preempted_work_saves_a_checkpoint_and_continues_elsewhere(
    api: Api, admin: Caller, user: Caller, agent: PlayedAgent
) -> None:
    experiment = create(user, activate=True)
    api.tick()
    (order,) = agent.poll()
    allocation = f"/api/v1/allocations/{order['allocation_id']}/ready"
    api.with_token(order["spec"]["session_token"]).post(allocation)
    move(admin, preempt=True)
    (order,) = agent.poll()
    assert order["preempt"] is True
    (why,) = user.get(f"/api/v1/why/experiment/{experiment}")["reasons"]
    assert "agent a1 moves to resource pool reserved" in why["sentence"]
    agent.poll("terminated", exit_code=0)
    api.tick()
    assert pool_of(admin) == "reserved"


def test_the_choice_survives_a_restart_of_the_agent(
    api: Api, admin: Caller, agent: PlayedAgent
) -> None:
    move(admin)
    agent.join("default")
    assert pool_of(admin) == "reserved"
    agent.join("default")
    assert pool_of(admin) == "reserved"


def test_a_changed_option_of_the_agent_replaces_the_choice(
    api: Api, admin: Caller, agent: PlayedAgent
) -> None:
    admin.post("/api/v1/pools", {"settings": {"pool_name": "lab"}})
    move(admin)
    agent.join("lab")
    assert pool_of(admin) == "lab"
    agent.join("default")
    assert pool_of(admin) == "default"


def test_a_second_move_is_remembered_as_well(api: Api, admin: Caller, agent: PlayedAgent) -> None:
    admin.post("/api/v1/pools", {"settings": {"pool_name": "lab"}})
    move(admin)
    move(admin, "lab")
    agent.join("default")
    assert pool_of(admin) == "lab"
    move(admin, "default")
    agent.join("default")
    assert pool_of(admin) == "default"


def test_enabling_an_agent_calls_its_move_off(
    api: Api, admin: Caller, user: Caller, agent: PlayedAgent
) -> None:
    create(user, activate=True)
    api.tick()
    agent.poll()
    move(admin)
    admin.post("/api/v1/agents/a1/enable")
    agent.poll("terminated", exit_code=0)
    api.tick()
    assert pool_of(admin) == "default"


def test_a_busy_agent_that_restarts_still_moves_later(
    api: Api, admin: Caller, user: Caller, agent: PlayedAgent
) -> None:
    create(user, activate=True)
    api.tick()
    agent.poll()
    move(admin)
    agent.join("default")
    assert admin.get("/api/v1/agents/a1")["agent"]["movesTo"] == "reserved"


@pytest.mark.parametrize(("pool", "status"), [("nowhere", 404), ("big", 400), ("", 404)])
def test_an_agent_moves_to_existing_static_pools_only(
    admin: Caller, agent: PlayedAgent, pool: str, status: int
) -> None:
    provider = {"type": "aws", "region": "us-east-1", "instance_type": "g5.xlarge"}
    admin.post("/api/v1/pools", {"settings": {"pool_name": "big", "provider": provider}})
    response = admin.ask("POST", "/api/v1/agents/a1/move", {"pool": pool})
    assert response.status == status
    assert "default, reserved" in response.error


def test_agents_of_rented_machines_stay(cluster: RentedCluster) -> None:
    admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
    admin.post("/api/v1/pools", {"settings": {"pool_name": "lab"}})
    create(user, activate=True)
    machine, _ = cluster.employ()
    response = admin.ask("POST", f"/api/v1/agents/{machine.cloud_id}/move", {"pool": "lab"})
    assert (response.status, "rented machine" in response.error) == (400, True)


def test_only_operators_move_agents(user: Caller, admin: Caller, agent: PlayedAgent) -> None:
    assert user.ask("POST", "/api/v1/agents/a1/move", {"pool": "reserved"}).status == 403
    missing = admin.ask("POST", "/api/v1/agents/a9/move", {"pool": "reserved"})
    assert missing.status == 404


def test_work_of_a_leaving_pool_without_agents_has_the_reason_and_the_fix(
    api: Api, admin: Caller, user: Caller, agent: PlayedAgent
) -> None:
    admin.post("/api/v1/pools", {"settings": {"pool_name": "lab"}})
    move(admin, "lab")
    waiting = create(user, activate=True, resources={"resource_pool": "lab"})
    admin.done("DELETE", "/api/v1/pools/lab", query={"drain": ["true"], "agentsTo": ["default"]})
    move(admin, "default")
    api.tick()
    (why,) = user.get(f"/api/v1/why/experiment/{waiting}")["reasons"]
    assert why["sentence"] == (
        "needs 1 slot; resource pool 'lab' is being deleted and has no agent with slots; move it with"
        f" `det job update {waiting} --resource-pool default`, or keep the pool with `det pool delete lab --cancel`"
    )
    job_id = user.get(f"/api/v1/experiments/{waiting}")["experiment"]["jobId"]
    user.post("/api/v1/job-queues", {"updates": [{"jobId": job_id, "resourcePool": "default"}]})
    api.tick()
    assert len(agent.poll()) == 1
