"""Machines that show fewer slots than they were rented for are not let in: work would wait for them for ever."""

import uuid
from dataclasses import replace

import pytest
from det_controlplane.testing.fakecloud import RentedMachine

from tests.support.api import Api, ApiResponse, Caller, create
from tests.support.rented import RentedCluster, offer

AGENT = str(uuid.uuid4())


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


@pytest.fixture
def machine(cluster: RentedCluster, user: Caller) -> RentedMachine:
    create(user, resources={"slots_per_trial": 4}, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert machine.offer.slots == 4
    return machine


def join(cluster: RentedCluster, machine: RentedMachine, slots: int) -> ApiResponse:
    body = cluster.joining(machine.cloud_id, AGENT, machine)
    cluster.pass_time(seconds=1)  # each proof is a new one
    return cluster.api.anonymous().ask(
        "POST", "/agents/v1/join", {**body, "slots": body["slots"][:slots]}
    )


@pytest.mark.parametrize(
    ("machine_type", "slots", "waits"),
    [("g5.xlarge", 1, True), ("p6-b200.48xlarge", 8, True), ("m5.large", 1, False), ("m7i.large", 1, False)],
)  # fmt: skip
def test_machine_with_gpus_waits_for_their_driver(
    cluster: RentedCluster, user: Caller, machine_type: str, slots: int, waits: bool
) -> None:
    (pool,) = cluster.api.ctx.config.resource_pools
    pools = (replace(pool, offers=(offer("1", slots=slots, machine_type=machine_type),)),)
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=pools)
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert ("waiting for the GPUs" in machine.request.user_data) is waits


def test_rejects_machine_without_all_of_its_gpus(
    cluster: RentedCluster, machine: RentedMachine
) -> None:
    response = join(cluster, machine, slots=3)
    assert response.status == 401
    assert "shows 3 of the 4 slots that g5.4 has" in response.error
    assert [i["state"] for i in cluster.instances()] == ["LAUNCHED"]
    assert join(cluster, machine, slots=4).status == 200


def test_repeated_machines_without_gpus_hold_their_pool(
    cluster: RentedCluster, machine: RentedMachine
) -> None:
    for _ in range(3):
        join(cluster, cluster.cloud.rented[-1], slots=0)
        cluster.pass_time(minutes=21)
        cluster.settle()
    cluster.pass_time(minutes=10)
    cluster.settle()
    assert len(cluster.cloud.rented) == 3


def test_operator_can_configure_fewer_gpus(cluster: RentedCluster, machine: RentedMachine) -> None:
    (pool,) = cluster.api.ctx.config.resource_pools
    settings = {"agent_config_file_contents": {"visible_gpus": "0,1"}}
    sections = (replace(pool.sections[0], settings=settings),)
    pools = (replace(pool, sections=sections),)
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=pools)
    assert join(cluster, machine, slots=2).status == 200


def test_rejoining_agent_with_fewer_gpus_is_accepted(
    cluster: RentedCluster, machine: RentedMachine
) -> None:
    assert join(cluster, machine, slots=4).status == 200
    assert join(cluster, machine, slots=3).status == 200
