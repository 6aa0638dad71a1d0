"""Gangs on EC2 get cluster placement groups, and start without one if EC2 has no room there."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.provision.gang import Gang
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome
from det_controlplane.testing.contracts.compute import CLUSTER, NEIGHBOUR, launch_request

from tests.support.fake_ec2 import FAILURES, Failure
from tests.support.on_ec2 import REGION, OnEc2

GANG = Gang("7.1.1")
A, B = f"{REGION}a", f"{REGION}b"


def gang_launch(on: OnEc2, gang: Gang, *zones: str, **settings: Any) -> LaunchOutcome:
    offers = offers_in(on, *(zones or (A,)))
    merged = {**on.place.settings, **settings}
    return on.compute.launch(launch_request(on, gang.ordered(offers), settings=merged, gang=gang))


def offers_in(on: OnEc2, *zones: str) -> list[Offer]:
    (first, *_) = on.offers(Capacity.ON_DEMAND)
    return [replace(first, zone=zone) for zone in zones]


def started(outcome: LaunchOutcome) -> CloudMachine:
    assert outcome.machine is not None, outcome.refusals
    return outcome.machine


def delete_groups(on: OnEc2, in_use: Collection[str] = (), cluster: str = CLUSTER) -> bool:
    return on.compute.delete_groups(cluster, on.place, in_use)


def test_the_machines_of_a_gang_share_a_group_that_names_the_cluster(ec2: OnEc2) -> None:
    first = started(gang_launch(ec2, GANG))
    second = started(gang_launch(ec2, replace(GANG, zones=(A,))))
    assert first.group == second.group
    (created,) = ec2.wire.sent("CreatePlacementGroup")
    assert created["Strategy"] == "cluster"
    assert CLUSTER in created["GroupName"]
    assert created["GroupName"].endswith(f"-{A}")
    listed = ec2.compute.owned(CLUSTER, ec2.place)
    assert {machine.group for machine in listed} == {first.group}


def test_a_single_machine_gets_no_group(ec2: OnEc2) -> None:
    request = launch_request(ec2, ec2.offers(Capacity.ON_DEMAND)[:1])
    assert started(ec2.compute.launch(request)).group == ""
    assert not ec2.wire.groups


def test_gangs_do_not_share_groups(ec2: OnEc2) -> None:
    groups = {started(gang_launch(ec2, Gang(f"{n}.1.1"))).group for n in range(2)}
    assert len(groups) == 2


def test_a_pool_can_do_without_groups(ec2: OnEc2) -> None:
    assert started(gang_launch(ec2, GANG, placement_group="none")).group == ""
    assert not ec2.wire.groups


def test_a_full_group_falls_back_to_the_same_zone(ec2: OnEc2) -> None:
    ec2.wire.most_in_group = 1
    gang_launch(ec2, GANG)
    outcome = gang_launch(ec2, replace(GANG, zones=(A,)), B, A)
    assert started(outcome).zone == A
    assert started(outcome).group == ""
    assert "no capacity in the group (InsufficientInstanceCapacity)" in outcome.outside_group


def test_a_full_zone_falls_back_to_another_one(ec2: OnEc2) -> None:
    gang = replace(GANG, zones=(B,))
    ec2.wire.full_zones[B] = FAILURES[RefusalKind.NO_CAPACITY]
    outcome = gang_launch(ec2, gang, A, B)
    assert started(outcome).zone == A
    assert [refusal.scope.zone for refusal in outcome.refusals] == [B]


def test_a_strict_gang_waits_for_room_in_its_group(ec2: OnEc2) -> None:
    ec2.wire.most_in_group = 1
    gang_launch(ec2, GANG)
    outcome = gang_launch(ec2, replace(GANG, zones=(A,), is_strict=True), A, B)
    assert outcome.machine is None
    assert {refusal.kind for refusal in outcome.refusals} == {RefusalKind.NO_CAPACITY}
    assert {refusal.scope.zone for refusal in outcome.refusals} == {A}


def test_the_first_machine_takes_the_zone_that_has_room_in_a_group(ec2: OnEc2) -> None:
    ec2.wire.full_zones[A] = FAILURES[RefusalKind.NO_CAPACITY]
    machine = started(gang_launch(ec2, GANG, A, B))
    assert machine.zone == B
    assert machine.group.endswith(f"-{B}")
    assert set(ec2.wire.groups) == {machine.group}, "the group of the full zone is deleted"


def test_types_without_support_start_without_a_group(ec2: OnEc2) -> None:
    offer = replace(ec2.offers(Capacity.ON_DEMAND)[0], machine_type="t3.xlarge")
    outcome = ec2.compute.launch(launch_request(ec2, [offer], gang=GANG))
    assert started(outcome).group == ""
    assert not ec2.wire.sent("CreatePlacementGroup")


@pytest.mark.parametrize(
    "failure",
    [
        Failure("PlacementGroupLimitExceeded", "You have reached the maximum number"),
        Failure("UnauthorizedOperation", "You are not authorized to perform this operation", 403),
    ],
)
def test_a_gang_starts_although_no_group_can_be_created(ec2: OnEc2, failure: Failure) -> None:
    ec2.wire.failing_actions["CreatePlacementGroup"] = failure
    outcome = gang_launch(ec2, GANG)
    assert started(outcome).group == ""
    assert outcome.outside_group == f"{failure.message} ({failure.code})"
    assert not outcome.refusals


def test_a_late_shortage_lets_the_gang_start_without_a_group(ec2: OnEc2) -> None:
    assert started(gang_launch(ec2, replace(GANG, avoids_group=True))).group == ""


def test_a_deleted_group_is_created_again(ec2: OnEc2) -> None:
    gang_launch(ec2, GANG)
    ec2.wire.groups.clear()
    machine = started(gang_launch(ec2, replace(GANG, zones=(A,))))
    assert set(ec2.wire.groups) == {machine.group}


def test_a_repeated_launch_returns_the_same_machine(ec2: OnEc2) -> None:
    request = launch_request(ec2, offers_in(ec2, A), gang=GANG)
    first, second = ec2.compute.launch(request), ec2.compute.launch(request)
    assert started(first).cloud_id == started(second).cloud_id
    assert started(second).group


def test_a_failed_launch_leaves_no_group(ec2: OnEc2) -> None:
    ec2.wire.full_zones[A] = FAILURES[RefusalKind.NO_CAPACITY]
    assert gang_launch(ec2, GANG).machine is None
    assert not ec2.wire.groups


def test_unused_groups_of_the_cluster_are_deleted(ec2: OnEc2) -> None:
    machine = started(gang_launch(ec2, GANG))
    assert delete_groups(ec2, {machine.group})
    assert set(ec2.wire.groups) == {machine.group}
    assert not delete_groups(ec2), "EC2 keeps a group with a machine"
    ec2.compute.terminate([machine])
    assert delete_groups(ec2, cluster=NEIGHBOUR)
    assert ec2.wire.groups, "another cluster's groups stay"
    assert delete_groups(ec2)
    assert not ec2.wire.groups


@pytest.fixture(autouse=True)
def forgotten_groups(ec2: OnEc2) -> None:
    """Let the provisioner, which tests share, forget groups of earlier tests."""
    provisioner: Any = ec2.compute
    provisioner._groups._existing.clear()
