"""Machines that leave at a known time: their work ends by then."""

from dataclasses import replace
from datetime import timedelta

import pytest
from det_controlplane.services.context import Context
from det_controlplane.services.scheduling import stopping

from tests.support.api import Api, Caller, create
from tests.support.rented import RentedCluster


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def test_work_is_killed_before_its_machine_ends(cluster: RentedCluster, user: Caller) -> None:
    """The trial may take an hour for its checkpoint; the machine ends earlier."""
    experiment_id = create(user, activate=True)
    _, agent = cluster.employ()
    (order,) = agent.running.values()
    user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    at = cluster.time + timedelta(seconds=120)
    agent.poll(leaving=True, deadline=at.isoformat().replace("+00:00", "Z"))
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert f"goes away at {at:%H:%M:%S} UTC" in reason["sentence"]
    for _ in range(5):
        cluster.pass_time(seconds=23)
        cluster.decide()
        (order,) = agent.poll(leaving=True)
    assert (order["desired"], order["preempt"]) == ("running", True)
    cluster.pass_time(seconds=10)
    cluster.settle()
    (order,) = agent.poll(leaving=True)
    assert order["desired"] == "killed"
    agent.poll(leaving=True, exits=dict.fromkeys(agent.running, 137))
    cluster.settle()
    trial = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]
    assert (trial["state"], trial["restarts"]) == ("STATE_QUEUED", 0)
    assert len(cluster.cloud.alive()) == 2, "the other one is for what goes on"


def test_preempted_work_is_killed_before_its_machine_ends(
    cluster: RentedCluster, user: Caller
) -> None:
    """A rebalance recommendation comes before the interruption notice. Only the notice has a time."""
    create(user, activate=True)
    _, agent = cluster.employ()
    (order,) = agent.running.values()
    user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    agent.poll(leaving=True, notice="rebalance")
    at = cluster.time + timedelta(seconds=20)
    (order,) = agent.poll(leaving=True, deadline=at.isoformat())
    assert (order["desired"], order["preempt"]) == ("running", True)
    cluster.pass_time(seconds=21)
    cluster.decide()
    (order,) = agent.poll(leaving=True, deadline=at.isoformat())
    assert order["desired"] == "killed"


def test_failed_gpu_preempts_work_and_drains_its_machine(
    cluster: RentedCluster, user: Caller
) -> None:
    experiment_id = create(user, activate=True)
    machine, agent = cluster.employ()
    (order,) = agent.running.values()
    user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    message = "GPU 0 (GPU-a) reported Xid 79"
    (order,) = agent.poll(leaving=True, notice="maintenance", out_of_service=message)
    assert (order["desired"], order["preempt"]) == ("running", True)
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert f"the machine of agent {machine.cloud_id} goes away: {message}" in reason["sentence"]
    cluster.settle()
    instance = {i["cloudId"]: (i["state"], i["reason"]) for i in cluster.instances()}
    assert instance.pop(machine.cloud_id) == ("DRAINING", "its agent is out of service")
    assert [state for state, _ in instance.values()] == ["LAUNCHED"], "the other one is there early"


def test_leaving_machine_tells_a_trial_how_long_it_has(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, activate=True)
    _, agent = cluster.employ()
    (order,) = agent.running.values()
    assert "kill_within_s" not in order
    user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    (order,) = agent.poll(
        leaving=True, deadline=(cluster.time + timedelta(seconds=120)).isoformat()
    )
    assert (order["preempt"], order["kill_within_s"]) == (True, 120.0)
    cluster.pass_time(seconds=50)
    (order,) = agent.poll(leaving=True)
    assert order["kill_within_s"] == 70.0


def test_shorter_time_of_a_preempted_trial_is_news(cluster: RentedCluster, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    _, agent = cluster.employ()
    (order,) = agent.running.values()
    user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    user.post(f"/api/v1/experiments/{experiment_id}/pause")
    (order,) = agent.poll()
    version = agent.version
    assert order["kill_within_s"] == 3600.0
    agent.poll(leaving=True, deadline=(cluster.time + timedelta(seconds=20)).isoformat())
    assert agent.version != version


def test_notebook_runs_until_its_machine_ends(cluster: RentedCluster, user: Caller) -> None:
    user.post("/api/v1/notebooks", {"config": {}})
    _, agent = cluster.employ()
    agent.poll(leaving=True, deadline=(cluster.time + timedelta(seconds=20)).isoformat())
    cluster.pass_time(seconds=21)
    cluster.decide()
    (order,) = agent.poll(leaving=True)
    assert order["desired"] == "running"


def test_invalid_deadline_is_ignored(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    _, agent = cluster.employ()
    agent.poll(leaving=True, notice="maintenance", deadline="2 Jan 2026 00:00:00 GMT")
    cluster.settle()
    assert len(cluster.cloud.alive()) == 2


@pytest.mark.parametrize("lost", ["before the first", "after the first"])
def test_work_above_the_maximum_is_preempted_despite_a_crash(
    cluster: RentedCluster, user: Caller, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    agents = []
    for _ in range(3):
        create(user, activate=True)
        agents.append(cluster.employ()[1])
        (order,) = agents[-1].running.values()
        user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
        cluster.pass_time(seconds=1)
    (pool,) = cluster.api.ctx.config.resource_pools
    small = replace(pool, limits=replace(pool.limits, max_instances=1))
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=(small,))
    ask = stopping.stop_all_on_agent
    requests: list[str] = []

    def die(ctx: Context, agent_id: str, *, why: str) -> bool:
        if lost == "before the first" or requests:
            raise KeyboardInterrupt
        requests.append(agent_id)
        return ask(ctx, agent_id, why=why)

    create(user, activate=True)
    monkeypatch.setattr(stopping, "stop_all_on_agent", die)
    with pytest.raises(KeyboardInterrupt):
        cluster.decide()
    monkeypatch.undo()
    cluster.decide()
    orders = [order for agent in agents for order in agent.poll()]
    assert sum(order["preempt"] for order in orders) == 2
