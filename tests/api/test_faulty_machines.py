"""Machines that are slow or have a faulty GPU are replaced, and the gang on them continues elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.provision.model import Limits
from det_controlplane.core.provision.offers import Capacity
from det_controlplane.db.engine.database import Database

from tests.support.api import Api, Caller, create, trial_of
from tests.support.rented import MachineAgent, RentedCluster, offer, reason, rented_cluster

OFFER = offer("2.00", Capacity.ON_DEMAND, slots=4, zone="us-east-1a")
FAULTS = (
    "GPU 2 (GPU-2) reported Xid 79, it has fallen off the bus: reset it or restart the machine",
    "GPU 2 (GPU-2) has 3 memory errors that ECC could not correct",
    "GPU 2 (GPU-2) is gone: the driver lost it, see `dmesg | grep Xid`",
)


def fault_report(fault: str = FAULTS[0]) -> dict[str, Any]:
    """Return how an agent reports a faulty GPU."""
    return {"leaving": True, "notice": "maintenance", "out_of_service": fault}


class Gang:
    """A trial on two rented machines, which may restart once."""

    def __init__(self, cluster: RentedCluster, user: Caller, **resources: Any) -> None:
        self.cluster, self.user = cluster, user
        resources = {"slots_per_trial": 8, **resources}
        self.experiment = create(user, activate=True, max_restarts=1, resources=resources)
        cluster.settle()
        self.agents = [cluster.boot(machine) for machine in cluster.cloud.alive()]
        self.start(*self.agents)

    def start(self, *agents: MachineAgent) -> None:
        self.cluster.settle()
        for agent in agents:
            agent.work()
        (order,) = agents[0].running.values()
        self.user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")

    def report_slow(self, agent: MachineAgent) -> None:
        (order,) = agent.running.values()
        caller = self.cluster.api.with_token(order["spec"]["session_token"])
        trial = trial_of(self.user, self.experiment)["id"]
        body = {
            "rank": 5, "slowdown": 0.25, "ownSeconds": 0.125, "medianSeconds": 0.1, "cause": "compute",
            "stepsCompleted": 80, "agentId": agent.agent_id,
        }  # fmt: skip
        caller.post(f"/api/v1/trials/{trial}/stragglers", body)

    def leave(self, **fault: Any) -> None:
        """Let all containers store their checkpoints and exit. The second agent reports its fault all the time."""
        usual, other = self.agents
        for agent, report in ((usual, {}), (other, fault)):
            (asked,) = agent.poll(**report)
            assert asked["preempt"]
            (order,) = agent.running.values()
            caller = self.cluster.api.with_token(order["spec"]["session_token"])
            caller.post(f"/api/v1/allocations/{order['allocation_id']}/signals/ack_preemption")
        for agent, report in ((usual, {}), (other, fault)):
            agent.poll(exits=dict.fromkeys(agent.running, 0), **report)
            agent.poll(**report)
        self.cluster.settle()

    def state_of(self, agent: MachineAgent) -> tuple[str, str]:
        return next(
            (i["state"], i["reason"])
            for i in self.cluster.instances()
            if i["cloudId"] == agent.agent_id
        )


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    limits = Limits(max_idle_s=600, max_instances=6)
    with rented_cluster(database, tmp_path, offers=(OFFER,), limits=limits) as rented_machines:
        yield rented_machines


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def test_a_machine_that_is_slow_three_times_is_replaced(
    cluster: RentedCluster, user: Caller
) -> None:
    gang = Gang(cluster, user)
    usual, slow = gang.agents
    for _ in range(3):
        gang.report_slow(slow)
        cluster.pass_time(minutes=11)
        for agent in gang.agents:
            agent.poll()
        cluster.settle()
    assert gang.state_of(slow) == ("DRAINING", "trials reported it as slow three times")
    assert gang.state_of(usual)[0] == "REGISTERED"
    assert "was asked to checkpoint and stop" in reason(user, gang.experiment)
    assert "slow three times" in reason(user, gang.experiment)
    gang.leave()
    assert gang.state_of(slow)[0] in ("TERMINATING", "GONE")
    (replacement,) = [
        m for m in cluster.cloud.alive() if m.cloud_id not in (slow.agent_id, usual.agent_id)
    ]
    joined = cluster.boot(replacement)
    gang.start(usual, joined)
    assert len(usual.running) == len(joined.running) == 1
    assert trial_of(user, gang.experiment)["restarts"] == 0
    cluster.pass_time(minutes=2)
    cluster.settle()
    assert {m.cloud_id for m in cluster.cloud.alive()} == {usual.agent_id, joined.agent_id}


def test_two_slow_reports_replace_no_machine(cluster: RentedCluster, user: Caller) -> None:
    gang = Gang(cluster, user)
    for _ in range(2):
        gang.report_slow(gang.agents[1])
        cluster.pass_time(minutes=11)
        for agent in gang.agents:
            agent.poll()
        cluster.settle()
    assert [gang.state_of(agent)[0] for agent in gang.agents] == ["REGISTERED"] * 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_gang_leaves_a_machine_with_a_faulty_gpu(
    cluster: RentedCluster, user: Caller, fault: str
) -> None:
    gang = Gang(cluster, user)
    usual, faulty = gang.agents
    faulty.poll(**fault_report(fault))
    assert fault in reason(user, gang.experiment)
    described = user.get(f"/api/v1/agents/{faulty.agent_id}")["agent"]
    assert described["outOfService"] == fault
    assert {slot["enabled"] for slot in described["slots"].values()} == {False}
    gang.leave(**fault_report(fault))
    assert gang.state_of(faulty)[0] in ("TERMINATING", "GONE")
    machines = {m.cloud_id: m for m in cluster.cloud.alive()}
    (new,) = set(machines) - {usual.agent_id, faulty.agent_id}
    joined = cluster.boot(machines[new])
    gang.start(usual, joined)
    assert len(usual.running) == len(joined.running) == 1
    assert trial_of(user, gang.experiment)["restarts"] == 0


def test_the_crash_of_a_rank_on_a_faulty_gpu_is_not_charged(
    cluster: RentedCluster, user: Caller
) -> None:
    gang = Gang(cluster, user)
    usual, faulty = gang.agents
    faulty.poll(**fault_report(), exits=dict.fromkeys(faulty.running, 1), failure="agent_error")
    cluster.settle()
    usual.poll(exits=dict.fromkeys(usual.running, 137))
    usual.poll()
    cluster.settle()
    trial = trial_of(user, gang.experiment)
    assert (trial["state"], trial["restarts"]) == ("STATE_QUEUED", 0)


def test_an_elastic_gang_continues_on_the_machine_that_is_left(
    cluster: RentedCluster, user: Caller
) -> None:
    gang = Gang(cluster, user, min_slots_per_trial=4)
    usual, faulty = gang.agents
    cluster.cloud.connected = False  # no replacement can be rented
    faulty.poll(**fault_report())
    gang.leave(**fault_report())
    gang.start(usual)
    assert [len(usual.running), len(faulty.running)] == [1, 0]
    assert "with 4 of 8 slots" in reason(user, gang.experiment)
    assert trial_of(user, gang.experiment)["restarts"] == 0
