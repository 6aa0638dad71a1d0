"""Gangs on Google Cloud get compact placement policies, and start without one if there is no room."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.provision.gang import Gang
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome
from det_controlplane.testing.contracts.compute import CLUSTER, NEIGHBOUR, launch_request

from tests.support.fake_gce import denied, stockout
from tests.support.gce_provider import PROJECT, REGION, ZONE, Gce, body_of, offer, provided

GANG = Gang("7.1.1")
A, B = ZONE, "us-central1-b"
TYPE = "g2-standard-8"


@pytest.fixture
def cloud() -> Iterator[Gce]:
    with provided() as gce:
        yield gce


def gang_launch(cloud: Gce, gang: Gang, *zones: str, **settings: Any) -> LaunchOutcome:
    offers = gang.ordered([replace(offer(TYPE), zone=zone) for zone in zones or (A,)])
    return cloud.compute.launch(launch_request(cloud, offers, settings=settings, gang=gang))


def started(outcome: LaunchOutcome) -> CloudMachine:
    assert outcome.machine is not None, outcome.refusals
    return outcome.machine


def names(cloud: Gce) -> set[str]:
    return {name for _, _, name in cloud.fake.policies}


def test_the_machines_of_a_gang_share_a_compact_policy_that_names_the_cluster(cloud: Gce) -> None:
    first = started(gang_launch(cloud, GANG))
    second = started(gang_launch(cloud, replace(GANG, zones=(A,))))
    assert {first.group, second.group} == names(cloud)
    assert CLUSTER in first.group
    (policy,) = cloud.fake.policies.values()
    assert policy["groupPlacementPolicy"] == {"collocation": "COLLOCATED"}
    path = f"projects/{PROJECT}/regions/{REGION}/resourcePolicies/{first.group}"
    assert body_of(cloud, first)["resourcePolicies"] == [path]
    assert {m.group for m in cloud.compute.owned(CLUSTER, cloud.place)} == {first.group}


def test_google_chooses_the_zone_of_the_first_machine(cloud: Gce) -> None:
    machine = started(gang_launch(cloud, GANG, ""))
    assert machine.zone == A
    assert machine.group


def test_later_machines_of_a_gang_follow_to_its_zone(cloud: Gce) -> None:
    machine = started(gang_launch(cloud, replace(GANG, zones=(B,)), ""))
    assert machine.zone == B
    assert machine.group


def test_a_single_machine_gets_no_policy(cloud: Gce) -> None:
    assert started(cloud.compute.launch(launch_request(cloud, [offer(TYPE)]))).group == ""
    assert not cloud.fake.policies


def test_a_pool_can_do_without_policies(cloud: Gce) -> None:
    assert started(gang_launch(cloud, GANG, placement_policy="none")).group == ""


def test_types_without_support_start_without_a_policy(cloud: Gce) -> None:
    request = launch_request(cloud, [offer("n1-standard-8")], gang=GANG)
    assert started(cloud.compute.launch(request)).group == ""
    assert not cloud.fake.policies


def test_a_full_policy_falls_back_to_the_same_zone(cloud: Gce) -> None:
    cloud.fake.most_in_policy = 1
    gang_launch(cloud, GANG)
    outcome = gang_launch(cloud, replace(GANG, zones=(A,)), B, A)
    assert (started(outcome).zone, started(outcome).group) == (A, "")
    assert "(ZONE_RESOURCE_POOL_EXHAUSTED" in outcome.outside_group
    assert not outcome.refusals


def test_a_full_zone_falls_back_to_another_one(cloud: Gce) -> None:
    cloud.give(stockout(B, TYPE), TYPE, B)
    outcome = gang_launch(cloud, replace(GANG, zones=(B,)), A, B)
    assert started(outcome).zone == A
    assert [refusal.scope.zone for refusal in outcome.refusals] == [B]


def test_a_strict_gang_waits_for_room_in_its_policy(cloud: Gce) -> None:
    cloud.fake.most_in_policy = 1
    gang_launch(cloud, GANG)
    outcome = gang_launch(cloud, replace(GANG, zones=(A,), is_strict=True), A, B)
    assert outcome.machine is None
    assert [(r.kind, r.scope.zone) for r in outcome.refusals] == [(RefusalKind.NO_CAPACITY, A)]


def test_a_gang_starts_although_no_policy_can_be_created(cloud: Gce) -> None:
    cloud.fake.policy_trouble = denied("compute.resourcePolicies.create")
    outcome = gang_launch(cloud, GANG)
    assert started(outcome).group == ""
    assert "compute.resourcePolicies.create" in outcome.outside_group


def test_a_failed_launch_leaves_no_policy(cloud: Gce) -> None:
    cloud.give(stockout(A, TYPE), TYPE, A)
    assert gang_launch(cloud, GANG).machine is None
    assert not cloud.fake.policies


def test_a_repeated_launch_returns_the_same_machine(cloud: Gce) -> None:
    request = launch_request(cloud, [offer(TYPE)], gang=GANG)
    first, second = cloud.compute.launch(request), cloud.compute.launch(request)
    assert started(first).cloud_id == started(second).cloud_id
    assert started(second).group == started(first).group


def test_unused_policies_of_the_cluster_are_deleted(cloud: Gce) -> None:
    machine = started(gang_launch(cloud, GANG))
    delete = cloud.compute.delete_groups
    assert delete(CLUSTER, cloud.place, {machine.group})
    assert names(cloud) == {machine.group}
    assert not delete(CLUSTER, cloud.place, ()), "Google Cloud keeps a policy with a machine"
    cloud.compute.terminate([machine])
    cloud.clock[0] += 60
    assert delete(NEIGHBOUR, cloud.place, ())
    assert cloud.fake.policies, "another cluster's policies stay"
    assert delete(CLUSTER, cloud.place, ())
    assert not cloud.fake.policies
