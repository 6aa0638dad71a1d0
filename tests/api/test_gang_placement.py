"""The machines of a gang are rented in one zone and one placement group if the cloud has room."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.db.engine.database import Database
from det_controlplane.ports.compute import LaunchOutcome, LaunchRequest
from det_controlplane.services.machines import calling
from det_controlplane.testing.fakecloud import FakeCloud

from tests.support.api import Api, Caller, create
from tests.support.rented import MachineAgent, RentedCluster, offer, reason, rented_cluster

A = offer("2.00", Capacity.ON_DEMAND, slots=4, zone="us-east-1a")
B = offer("2.00", Capacity.ON_DEMAND, slots=4, zone="us-east-1b")


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    with rented_cluster(database, tmp_path, offers=(A, B)) as rented_machines:
        yield rented_machines


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def gang(user: Caller, **resources: object) -> int:
    return create(user, activate=True, resources={"slots_per_trial": 8, **resources})


def start(cluster: RentedCluster) -> list[MachineAgent]:
    """Boot all machines and start the work on them."""
    agents = [cluster.boot(machine) for machine in cluster.cloud.alive()]
    cluster.settle()
    for agent in agents:
        agent.work()
    return agents


def zones(cluster: RentedCluster) -> list[str]:
    return [machine.zone for machine in cluster.cloud.alive()]


def test_a_gang_gets_one_zone_and_one_group_and_why_names_them(
    cluster: RentedCluster, user: Caller
) -> None:
    id = gang(user)
    cluster.settle()
    assert zones(cluster) == ["us-east-1a"] * 2
    (group,) = {machine.group for machine in cluster.cloud.alive()}
    assert group
    assert f"in placement group {group}" in reason(user, id)
    start(cluster)
    assert f"; its machines are in us-east-1a, placement group {group}" in reason(user, id)
    assert {i["placement"] for i in cluster.instances()} == {f"placement group {group}"}


def test_a_machine_for_one_trial_is_in_no_group(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True, resources={"slots_per_trial": 4})
    cluster.settle()
    assert [machine.group for machine in cluster.cloud.alive()] == [""]
    assert [instance["placement"] for instance in cluster.instances()] == [None]


class BriefShortage:
    """A cloud with a shortage that ends after the first launch."""

    def __init__(self, cloud: FakeCloud) -> None:
        self._cloud = cloud

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        outcome = self._cloud.launch(request)
        self._cloud.allow()
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)


def test_the_second_machine_follows_the_first_to_another_zone(
    cluster: RentedCluster, user: Caller
) -> None:
    cluster.cloud.refuse(Scope("aws", zone="us-east-1a"), RefusalKind.NO_CAPACITY)
    gang(user)
    cluster.decide()
    clouds: Any = {"aws": BriefShortage(cluster.cloud)}
    calling.run(cluster.api.ctx, clouds)
    assert zones(cluster) == ["us-east-1b"] * 2
    assert len({machine.group for machine in cluster.cloud.alive()}) == 1


def test_without_room_in_the_group_the_gang_stays_in_its_zone(
    cluster: RentedCluster, user: Caller
) -> None:
    cluster.cloud.most_in_group = 1
    id = gang(user)
    cluster.settle()
    assert zones(cluster) == ["us-east-1a"] * 2
    start(cluster)
    assert "no placement group: there is not enough capacity in the group" in reason(user, id)


def test_without_room_in_the_zone_the_gang_spans_two_zones(
    cluster: RentedCluster, user: Caller
) -> None:
    id = gang(user)
    cluster.decide()
    cluster.cloud.most_in_zone = 1
    cluster.settle()
    assert zones(cluster) == ["us-east-1a", "us-east-1b"]
    agents = start(cluster)
    assert [len(agent.running) for agent in agents] == [1, 1]
    assert "its machines are in us-east-1a and us-east-1b" in reason(user, id)


def test_a_strict_gang_waits_for_its_group(cluster: RentedCluster, user: Caller) -> None:
    cluster.cloud.most_in_group = 1
    gang(user, topology="strict")
    cluster.settle(1)
    assert zones(cluster) == ["us-east-1a"]
    cluster.cloud.most_in_group = None
    cluster.pass_time(minutes=4)
    cluster.settle()
    assert len(set(zones(cluster))) == 1
    assert len(zones(cluster)) >= 2
    assert len({machine.group for machine in cluster.cloud.alive()}) == 1


def test_a_strict_gang_does_not_start_on_machines_of_two_zones(
    cluster: RentedCluster, user: Caller
) -> None:
    single = [create(user, activate=True, resources={"slots_per_trial": 4}) for _ in range(2)]
    cluster.cloud.most_in_zone = 1
    cluster.settle()
    agents = start(cluster)
    for id in single:
        user.post(f"/api/v1/experiments/{id}/kill")
    for agent in agents:
        agent.finish()
        agent.poll()
    assert zones(cluster) == ["us-east-1a", "us-east-1b"]
    gang(user, topology="strict")
    cluster.settle()
    assert [agent.poll() for agent in agents] == [[], []]
    gang(user)
    cluster.settle()
    assert [len(agent.poll()) for agent in agents] == [1, 1]


def test_no_group_is_left_when_the_machines_are_gone(cluster: RentedCluster, user: Caller) -> None:
    id = gang(user)
    cluster.settle()
    agents = start(cluster)
    user.post(f"/api/v1/experiments/{id}/kill")
    for agent in agents:
        agent.finish()
    for _ in range(3):
        cluster.pass_time(minutes=11)
        cluster.settle()
    assert not cluster.cloud.alive()
    assert not cluster.cloud.groups


def test_a_lost_answer_keeps_the_group(cluster: RentedCluster, user: Caller) -> None:
    gang(user)
    cluster.cloud.lose_next_answer()
    cluster.settle()
    cluster.pass_time(seconds=30)
    cluster.settle()
    assert len(cluster.cloud.alive()) == 2
    groups = {instance["placement"] for instance in cluster.instances()}
    assert groups == {f"placement group {cluster.cloud.alive()[0].group}"}


def test_a_shortage_after_the_launch_lets_the_gang_do_without_a_group(
    cluster: RentedCluster, user: Caller
) -> None:
    gang(user)
    cluster.settle()
    (first, second) = cluster.cloud.alive()
    cluster.cloud.reclaim(second.cloud_id)
    cluster.pass_time(minutes=3)
    cluster.settle()
    (_, replacement) = cluster.cloud.alive()
    assert first.group
    assert replacement.group == ""
    assert replace(replacement.offer, zone="") == replace(first.offer, zone="")
