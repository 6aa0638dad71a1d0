"""Machines from Google Compute Engine keep the contract, through Google's own client library."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import det_provisioner_gcp
import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.entry.clouds import clouds_of, identities_of
from det_controlplane.entry.settings import BadSettings
from det_controlplane.ports.compute import CloudMachine, LaunchRequest, Place, Unreachable
from det_controlplane.testing.contracts.compute import ComputeContract, launch_request
from det_provisioner_gcp import naming
from det_provisioner_gcp.api import GceApi
from det_provisioner_gcp.compute_engine import GceCompute
from google.auth.credentials import AnonymousCredentials

from tests.support.fake_gce import FakeGce, GceError, denied, quota, serving, stockout, throttled
from tests.support.fake_gce.cloud import Body
from tests.support.fake_gce.errors import OperationError

PROJECT, REGION, ZONE = "acme", "us-central1", "us-central1-a"


@dataclass
class Gce:
    """The fake behind the tested provider, on a clock that sleeping moves."""

    fake: FakeGce
    compute: GceCompute
    place: Place
    clock: list[float]
    more_than_a_page: int = 5

    def offers(self, capacity: Capacity) -> tuple[Offer, ...]:
        return (offer("g2-standard-8", capacity=capacity), offer(capacity=capacity))

    def refuse(self, offer: Offer, kind: RefusalKind) -> None:
        answers: Mapping[RefusalKind, GceError | OperationError] = {
            RefusalKind.NO_CAPACITY: stockout(offer.zone, offer.machine_type, ["us-central1-b"]),
            RefusalKind.QUOTA: quota("NVIDIA_L4_GPUS", 0.0, offer.region),
            RefusalKind.DENIED: denied("compute.instances.create"),
            RefusalKind.INVALID: GceError(400, "invalid", "Invalid value for field 'image': 'x'."),
            RefusalKind.RETRYABLE: throttled(),
        }
        self.give(answers[kind], offer.machine_type, offer.zone)

    def give(
        self, answer: GceError | OperationError, machine_type: str = "", zone: str = ""
    ) -> None:
        """Let launches of a type, in a zone, be answered with an error, besides those told before."""
        before = self.fake.trouble

        def trouble(where: str, body: Body) -> GceError | OperationError | None:
            is_type = body["machineType"].endswith(f"/{machine_type}") or not machine_type
            return answer if is_type and zone in ("", where) else before(where, body)

        self.fake.trouble = trouble

    def allow(self) -> None:
        self.fake.trouble = lambda zone, body: None

    def lose_next_answer(self) -> None:
        self.fake.answers_to_lose = 1

    def disconnect(self) -> None:
        self.fake.silent = True

    def reclaim(self, machine: CloudMachine) -> None:
        self.fake.preempt(machine.cloud_id.partition("/")[2])

    def print_on_console(self, machine: CloudMachine, text: str) -> None:
        self.fake.get(PROJECT, machine.zone, machine.cloud_id.partition("/")[2]).console += text

    def add_stranger(self) -> None:
        self.fake.add(PROJECT, ZONE, "database")

    def sleep(self, seconds: float) -> None:
        self.clock[0] += seconds


def offer(
    machine_type: str = "e2-standard-4",
    zone: str = ZONE,
    capacity: Capacity = Capacity.ON_DEMAND,
) -> Offer:
    return Offer("gcp", REGION, zone, machine_type, capacity, 1, Decimal("1.5"))


@pytest.fixture
def cloud() -> Iterator[Gce]:
    clock = [1_000_000.0]
    fake = FakeGce(lambda: clock[0])
    fake.most_per_page = 2
    with serving(fake) as address:
        api = GceApi(address, AnonymousCredentials())
        compute = GceCompute(api, PROJECT, now=lambda: clock[0], sleep=lambda s: None)
        gce = Gce(fake, compute, Place(REGION, {}), clock)
        compute._sleep = gce.sleep
        yield gce


def body_of(cloud: Gce, machine: CloudMachine | None) -> Body:
    """Return the description that a machine was made from."""
    assert machine is not None
    _, _, name = machine.cloud_id.partition("/")
    return cloud.fake.get(PROJECT, machine.zone, name).body


class TestGceKeepsTheContract(ComputeContract):
    pass


def test_a_machine_is_described_as_the_pool_says(cloud: Gce) -> None:
    settings = {
        "boot_disk_size": 300,
        "boot_disk_type": "pd-ssd",
        "boot_disk_source_image": "projects/images/global/images/gpu-7",
        "network_interface": {"network": "training", "subnetwork": "gpus", "external_ip": True},
        "network_tags": ["agents"],
        "service_account": {"email": "agent@acme.iam", "scopes": ["storage-ro"]},
        "labels": {"Team": "Vision & Co"},
        "label_key": "managed-by",
        "shielded": {"secure_boot": True},
    }
    request = launch_request(cloud, [offer()], pool="Big_GPUs", settings=settings)
    body = body_of(cloud, cloud.compute.launch(request).machine)
    assert body["name"] == f"det-{request.machine_id.hex}-1"
    (disk,) = body["disks"]
    assert disk["initializeParams"] == {
        "sourceImage": "projects/images/global/images/gpu-7",
        "diskSizeGb": "300",
        "diskType": f"projects/acme/zones/{ZONE}/diskTypes/pd-ssd",
    }
    assert disk["autoDelete"] is True
    (interface,) = body["networkInterfaces"]
    assert interface["network"] == "projects/acme/global/networks/training"
    assert interface["subnetwork"] == f"projects/acme/regions/{REGION}/subnetworks/gpus"
    assert [a["type"] for a in interface["accessConfigs"]] == ["ONE_TO_ONE_NAT"]
    assert body["tags"] == {"items": ["agents"]}
    assert body["serviceAccounts"] == [{"email": "agent@acme.iam", "scopes": ["storage-ro"]}]
    assert body["shieldedInstanceConfig"]["enableSecureBoot"] is True
    labels = body["labels"]
    assert labels["det-machine"] == request.machine_id.hex
    assert labels["det-cluster"] == request.cluster_id
    assert labels["det-pool"].startswith("big_gpus-")
    assert labels["managed-by"] == "determined"
    assert any(k.startswith("team-") and v.startswith("vision---co-") for k, v in labels.items())


def test_defaults_give_a_machine_that_can_prove_itself_and_is_not_reached(cloud: Gce) -> None:
    body = body_of(cloud, cloud.compute.launch(launch_request(cloud, [offer()])).machine)
    (account,) = body["serviceAccounts"]
    assert account["email"] == "default"
    assert account["scopes"] == ["https://www.googleapis.com/auth/userinfo.email"]
    (interface,) = body["networkInterfaces"]
    assert interface == {"network": "projects/acme/global/networks/default"}
    params = body["disks"][0]["initializeParams"]
    assert params["sourceImage"] == "projects/acme/global/images/family/determined-agent"
    assert (params["diskSizeGb"], params["diskType"].rpartition("/")[2]) == ("200", "pd-balanced")


@pytest.mark.parametrize(
    ("user_data", "key"),
    [("#!/bin/sh\ntrue\n", "startup-script"), ("#cloud-config\nruncmd: []\n", "user-data")],
)
def test_user_data_goes_where_the_image_looks_for_its_form(
    cloud: Gce, user_data: str, key: str
) -> None:
    request = replace(launch_request(cloud, [offer()]), user_data=user_data)
    items = body_of(cloud, cloud.compute.launch(request).machine)["metadata"]["items"]
    assert {"key": key, "value": user_data} in items
    assert {item["key"] for item in items} == {key, "det-pool"}


def test_spot_machines_are_deleted_when_they_are_taken_back(cloud: Gce) -> None:
    spot = offer(capacity=Capacity.SPOT)
    body = body_of(cloud, cloud.compute.launch(launch_request(cloud, [spot])).machine)
    assert body["scheduling"] == {
        "automaticRestart": False,
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "SPOT",
    }


def test_gpus_are_attached_only_where_a_type_has_none_of_its_own(cloud: Gce) -> None:
    settings = {"instance_type": {"gpu_type": "nvidia-tesla-t4", "gpu_num": 2}}
    attached, built_in, without = (
        body_of(cloud, cloud.compute.launch(launch_request(cloud, [o], settings=settings)).machine)
        for o in (offer("n1-standard-8"), offer("g2-standard-8"), offer("e2-standard-4"))
    )
    (accelerator,) = attached["guestAccelerators"]
    assert accelerator == {
        "acceleratorType": f"projects/acme/zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4",
        "acceleratorCount": 2,
    }
    assert "guestAccelerators" not in {*built_in, *without}
    assert "onHostMaintenance" not in without["scheduling"]
    for body in (attached, built_in):
        assert body["scheduling"]["onHostMaintenance"] == "TERMINATE"


def test_base_config_lies_below_what_the_pool_says(cloud: Gce) -> None:
    base = {
        "minCpuPlatform": "Intel Ice Lake",
        "labels": {"cost-center": "42", "det-pool": "forged"},
        "metadata": {"items": [{"key": "enable-oslogin", "value": "TRUE"}]},
        "scheduling": {"maxRunDuration": {"seconds": "86400"}},
    }
    request = launch_request(cloud, [offer()], settings={"base_config": base})
    body = body_of(cloud, cloud.compute.launch(request).machine)
    assert body["minCpuPlatform"] == "Intel Ice Lake"
    assert body["labels"]["cost-center"] == "42"
    assert body["labels"]["det-pool"] == "gpus"
    assert {"key": "enable-oslogin", "value": "TRUE"} in body["metadata"]["items"]
    assert body["scheduling"]["maxRunDuration"] == {"seconds": "86400"}
    assert body["scheduling"]["automaticRestart"] is False


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"boot_disk_size": 20}, "boot_disk_size"),
        ({"labels": "gpu"}, "labels"),
        ({"base_config": {"minCpuPlattform": "x"}}, "minCpuPlattform"),
        ({"shielded": {"secureboot": True}}, "secureboot"),
    ],
)
def test_settings_that_describe_no_machine_are_refused_with_the_field(
    cloud: Gce, settings: Mapping[str, Any], told: str
) -> None:
    outcome = cloud.compute.launch(launch_request(cloud, [offer()], settings=settings))
    (refusal,) = outcome.refusals
    assert (outcome.machine, refusal.kind) == (None, RefusalKind.INVALID)
    assert told in refusal.sentence
    assert cloud.fake.instances == []


def test_a_stockout_hints_at_the_zones_that_have_room(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "e2-standard-4", ["us-central1-c", "us-central1-f"]))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer()])).refusals
    assert refusal.hint == ("us-central1-c", "us-central1-f")
    assert refusal.scope.zone == ZONE
    assert "us-central1-c" in refusal.sentence


def test_the_next_zone_is_tried_after_a_stockout(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "e2-standard-4"), zone=ZONE)
    offers = [offer(), offer(zone="us-central1-b")]
    outcome = cloud.compute.launch(launch_request(cloud, offers))
    assert outcome.machine is not None
    assert outcome.machine.zone == "us-central1-b"
    assert [r.scope.zone for r in outcome.refusals] == [ZONE]


def test_an_accepted_machine_that_fails_later_tells_why_when_asked_again(cloud: Gce) -> None:
    cloud.fake.operation_s = 60.0
    cloud.give(stockout(ZONE, "e2-standard-4", ["us-central1-b"]), zone=ZONE)
    request = launch_request(cloud, [offer()])
    accepted = cloud.compute.launch(request).machine
    assert accepted is not None
    assert accepted.state == "pending"
    assert [m.state for m in cloud.compute.owned(request.cluster_id, cloud.place)] == ["pending"]
    cloud.sleep(120)
    assert list(cloud.compute.owned(request.cluster_id, cloud.place)) == []
    cloud.allow()
    cloud.fake.forget_request_ids()
    again = cloud.compute.launch(request)
    assert again.machine is None
    assert [(r.kind, r.hint) for r in again.refusals] == [
        (RefusalKind.NO_CAPACITY, ("us-central1-b",))
    ]


def test_asking_what_failed_later_starts_nothing(cloud: Gce) -> None:
    cloud.fake.operation_s = 60.0
    cloud.give(stockout(ZONE, "g2-standard-8"), "g2-standard-8")
    request = launch_request(cloud, cloud.offers(Capacity.SPOT))
    assert cloud.compute.launch(request).machine is not None
    cloud.sleep(120)
    again = cloud.compute.launch(request)
    assert again.machine is None
    assert [r.scope.machine_type for r in again.refusals] == ["g2-standard-8"]
    assert cloud.fake.listed(PROJECT) == []


def test_refusals_before_a_lost_answer_are_told_with_the_machine(cloud: Gce) -> None:
    first, second = cloud.offers(Capacity.SPOT)
    cloud.give(stockout(ZONE, first.machine_type), first.machine_type)
    request = launch_request(cloud, [first, second])
    outcome = cloud.compute.launch(request)
    assert cloud.compute.launch(request) == outcome
    assert outcome.machine is not None
    assert [r.scope.machine_type for r in outcome.refusals] == [first.machine_type]


def test_a_machine_that_was_taken_back_is_not_started_again_by_its_token(cloud: Gce) -> None:
    request = launch_request(cloud, cloud.offers(Capacity.SPOT))
    machine = cloud.compute.launch(request).machine
    assert machine is not None
    cloud.reclaim(machine)
    cloud.fake.forget_request_ids()
    again = cloud.compute.launch(request).machine
    assert again is not None
    assert (again.state, again.cloud_id) == ("gone", machine.cloud_id)
    assert again.ended_because == "spot capacity was taken back"
    assert cloud.fake.instances == []


def test_a_machine_that_has_the_name_is_the_one(cloud: Gce) -> None:
    request = launch_request(cloud)
    first = cloud.compute.launch(request).machine
    cloud.fake.forget_request_ids()
    cloud.fake.operations.clear()
    assert cloud.compute.launch(request).machine == first
    assert len(cloud.fake.instances) == 1


def test_many_launches_and_ends_at_once_share_a_provider(cloud: Gce) -> None:
    requests = [launch_request(cloud) for _ in range(24)]
    with ThreadPoolExecutor(8) as pool:
        launched = [o.machine for o in pool.map(cloud.compute.launch, requests)]
    ids = [m.cloud_id for m in launched if m]
    assert len(set(ids)) == 24
    assert [m.machine_id for m in launched if m] == [r.machine_id for r in requests]
    assert list(cloud.compute.terminate([m for m in launched if m])) == []


def test_a_launch_waits_a_few_seconds_at_most(cloud: Gce) -> None:
    cloud.fake.operation_s = 3600.0
    before = cloud.clock[0]
    machine = cloud.compute.launch(launch_request(cloud)).machine
    assert machine is not None
    assert machine.state == "pending"
    assert 0 < cloud.clock[0] - before <= 6


def test_a_machine_of_any_zone_that_failed_in_one_tells_why_for_that_zone(cloud: Gce) -> None:
    cloud.fake.operation_s = 60.0
    cloud.give(stockout(ZONE, "g2-standard-8"))
    request = launch_request(cloud, [offer("g2-standard-8", zone="")])
    assert cloud.compute.launch(request).machine is not None
    cloud.sleep(120)
    cloud.allow()
    there = replace(request, offers=(offer("g2-standard-8", zone=ZONE),))
    again = cloud.compute.launch(there)
    assert again.machine is None
    assert {r.kind for r in again.refusals} == {RefusalKind.NO_CAPACITY}
    assert ZONE in {r.scope.zone for r in again.refusals}


def test_a_launch_over_many_offers_ends_before_its_caller_gives_up(cloud: Gce) -> None:
    cloud.fake.operation_s = 4.0
    cloud.give(stockout(ZONE, "e2-standard-4"))
    types = [f"e2-standard-{n}" for n in range(100)]
    offers = [replace(offer(), machine_type=t, zone=z) for t in types for z in (ZONE,)]
    cloud.fake.machine_types |= {t: {"guestCpus": 4, "memoryMb": 1024} for t in types}
    before = cloud.clock[0]
    outcome = cloud.compute.launch(launch_request(cloud, offers))
    assert outcome.machine is None
    assert 0 < len(outcome.refusals) < 100
    assert cloud.clock[0] - before <= 66


def test_any_zone_means_the_first_with_room(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "g2-standard-8"), "g2-standard-8", ZONE)
    anywhere = offer("g2-standard-8", zone="", capacity=Capacity.SPOT)
    machine = cloud.compute.launch(launch_request(cloud, [anywhere])).machine
    assert machine is not None
    assert (machine.zone, machine.state) == ("us-central1-b", "running")
    assert body_of(cloud, machine)["scheduling"]["provisioningModel"] == "SPOT"


def test_one_regional_call_chooses_among_types_by_rank(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "a2-highgpu-1g"), "a2-highgpu-1g")
    offers = [offer("a2-highgpu-1g", zone=""), offer("g2-standard-8", zone="")]
    machine = cloud.compute.launch(launch_request(cloud, offers)).machine
    assert machine is not None
    assert machine.machine_type == "g2-standard-8"
    assert sum("bulkInsert" in call for call in cloud.fake.calls) == 1


def test_a_region_without_room_refuses_every_type_that_was_asked_for(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "a2-highgpu-1g"))
    offers = [offer("a2-highgpu-1g", zone=""), offer("g2-standard-8", zone="")]
    request = launch_request(cloud, offers)
    for outcome in (cloud.compute.launch(request), cloud.compute.launch(request)):
        assert outcome.machine is None
        assert [(r.kind, r.scope.machine_type) for r in outcome.refusals] == [
            (RefusalKind.NO_CAPACITY, "a2-highgpu-1g"),
            (RefusalKind.NO_CAPACITY, "g2-standard-8"),
        ]


def test_a_quota_behind_a_failed_bulk_insert_is_named(cloud: Gce) -> None:
    cloud.give(quota("NVIDIA_L4_GPUS", 2.0, REGION))
    anywhere = offer("g2-standard-8", zone="")
    (refusal,) = cloud.compute.launch(launch_request(cloud, [anywhere])).refusals
    assert refusal.kind is RefusalKind.QUOTA
    assert "NVIDIA_L4_GPUS" in refusal.sentence


def test_a_zone_is_tried_though_a_bulk_insert_failed_there(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "g2-standard-8"), "g2-standard-8")
    offers = [offer("g2-standard-8", zone=""), offer("e2-standard-4")]
    machine = cloud.compute.launch(launch_request(cloud, offers)).machine
    assert machine is not None
    assert (machine.machine_type, machine.zone) == ("e2-standard-4", ZONE)


def test_types_that_may_not_be_asked_for_together_are_asked_for_alone(cloud: Gce) -> None:
    offers = [offer("a2-highgpu-1g", zone=""), offer("g2-standard-8", zone="")]
    cloud.fake.accepts_flexibility = False
    machine = cloud.compute.launch(launch_request(cloud, offers)).machine
    assert machine is not None
    assert machine.machine_type == "a2-highgpu-1g"


def test_a_region_that_had_no_room_is_not_asked_again_by_a_token(cloud: Gce) -> None:
    cloud.give(quota("NVIDIA_L4_GPUS", 2.0, REGION))
    request = launch_request(cloud, [offer("g2-standard-8", zone="")])
    first = cloud.compute.launch(request)
    cloud.allow()
    cloud.fake.forget_request_ids()
    assert cloud.compute.launch(request) == first


def test_a_machine_of_unknown_zone_is_found_to_end_it_and_to_read_its_console(cloud: Gce) -> None:
    machine = cloud.compute.launch(launch_request(cloud)).machine
    assert machine is not None
    cloud.print_on_console(machine, "ready\n")
    somewhere = replace(machine, zone="")
    assert cloud.compute.console(somewhere, cloud.place) == "ready"
    assert list(cloud.compute.terminate([somewhere])) == []
    cloud.sleep(60)
    assert list(cloud.compute.owned(launch_request(cloud).cluster_id, cloud.place)) == []


def test_a_quota_is_named_with_its_limit_and_region(cloud: Gce) -> None:
    cloud.give(quota("NVIDIA_L4_GPUS", 1.0, REGION))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer("g2-standard-8")])).refusals
    assert refusal.kind is RefusalKind.QUOTA
    assert "NVIDIA_L4_GPUS in us-central1 allows 1 " in refusal.sentence
    assert not refusal.scope.covers(replace(offer("g2-standard-8"), region="europe-west4"))
    assert refusal.scope.covers(offer("g2-standard-8", zone="us-central1-b"))


def test_a_quota_of_the_project_holds_in_every_region(cloud: Gce) -> None:
    cloud.give(quota("GPUS_ALL_REGIONS", 0.0))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer("g2-standard-8")])).refusals
    assert refusal.scope.covers(replace(offer("g2-standard-8"), region="europe-west4"))
    assert not refusal.scope.covers(offer("e2-standard-4"))


def test_a_missing_permission_is_named_and_asked_for_once(cloud: Gce) -> None:
    cloud.give(denied("compute.instances.create"))
    offers = [offer(), offer(zone="us-central1-b"), offer("g2-standard-8")]
    (refusal,) = cloud.compute.launch(launch_request(cloud, offers)).refusals
    assert refusal.kind is RefusalKind.DENIED
    assert "compute.instances.create on projects/acme" in refusal.sentence
    assert all(refusal.scope.covers(o) for o in offers)
    assert sum(call.startswith("POST") for call in cloud.fake.calls) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (GceError(429, "rateLimitExceeded", "slow down"), RefusalKind.RETRYABLE),
        (GceError(503, "backendError", "try again"), RefusalKind.RETRYABLE),
        (GceError(412, "conditionNotMet", "Constraint vmExternalIpAccess"), RefusalKind.DENIED),
        (GceError(404, "notFound", "The resource 'image' was not found"), RefusalKind.INVALID),
        (OperationError(0, ({"code": "INTERNAL_ERROR", "message": "x"},)), RefusalKind.RETRYABLE),
        (OperationError(400, ({"code": "INVALID_USAGE", "message": "x"},)), RefusalKind.INVALID),
        (
            OperationError(503, ({"code": "VM_MIN_COUNT_NOT_REACHED", "message": "x"},)),
            RefusalKind.NO_CAPACITY,
        ),
    ],
)
def test_errors_are_of_their_kind(
    cloud: Gce, error: GceError | OperationError, kind: RefusalKind
) -> None:
    cloud.give(error)
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer()])).refusals
    assert refusal.kind is kind


@pytest.mark.parametrize("status", [500, 502, 504])
def test_an_answer_that_leaves_the_effect_open_is_no_refusal(cloud: Gce, status: int) -> None:
    cloud.give(GceError(status, "backendError", "oops"))
    with pytest.raises(Unreachable, match="oops"):
        cloud.compute.launch(launch_request(cloud, [offer()]))


def test_a_list_without_a_zone_that_is_silent_is_no_list(cloud: Gce) -> None:
    cloud.fake.unreachable_zones.add("us-central1-b")
    with pytest.raises(Unreachable, match="us-central1-b"):
        cloud.compute.owned("any", cloud.place)


def test_machines_of_other_regions_are_listed_there(cloud: Gce) -> None:
    request = launch_request(cloud, [replace(offer(zone="europe-west4-a"), region="europe-west4")])
    cloud.compute.launch(request)
    assert list(cloud.compute.owned(request.cluster_id, cloud.place)) == []
    (there,) = cloud.compute.owned(request.cluster_id, Place("europe-west4", {"project": PROJECT}))
    assert there.machine_id == request.machine_id


def test_a_machine_whose_label_was_edited_is_still_listed(cloud: Gce) -> None:
    cloud.fake.add(PROJECT, ZONE, "edited", labels={"det-cluster": "c", "det-machine": "mine"})
    (machine,) = cloud.compute.owned("c", cloud.place)
    assert (machine.machine_id, machine.cloud_id) == (None, "acme/edited")


def test_a_stopped_machine_is_listed_with_the_reason(cloud: Gce) -> None:
    request = launch_request(cloud)
    cloud.compute.launch(request)
    cloud.fake.instances[0].stopped_because = "Stopped by the guest."
    (machine,) = cloud.compute.owned(request.cluster_id, cloud.place)
    assert (machine.state, machine.ended_because) == ("stopped", "Stopped by the guest.")


def test_names_and_request_ids_follow_from_the_token() -> None:
    request = LaunchRequest("c", "p", UUID(int=7), 3, (offer(),), {}, "")
    assert naming.machine_name(request) == "det-00000000000000000000000000000007-3"
    assert naming.request_id(request, "a") == naming.request_id(request, "a")
    ids = {
        naming.request_id(r, *what)
        for r in (request, replace(request, attempt=4))
        for what in (["a"], ["b"])
    }
    assert len(ids) == 4


def test_label_values_stay_different_and_valid() -> None:
    names = ["gpus", "GPUs", "Gpus", "a" * 80, "a" * 81, "über", "a b", "a_b"]
    values = {naming.label_value(n) for n in names}
    assert len(values) == len(names)
    assert all(len(v) <= 63 for v in values)
    assert naming.label_value("gpus") == "gpus"


def test_the_package_gives_the_control_plane_what_it_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    assert det_provisioner_gcp.compute([{}]).provider == "gcp"
    (verifier,) = det_provisioner_gcp.identity_verifiers([{}, {"project": "other"}])
    assert verifier.kind == "gce_identity_token"


def test_a_host_without_googles_libraries_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = {"type": "gcp", "zone": ZONE, "instance_type": "g2-standard-8"}
    config = load_cluster({"resource_pools": [{"pool_name": "default", "provider": provider}]})
    assert clouds_of(config).keys() == {"gcp"}
    assert identities_of(config).keys() == {"gce_identity_token"}
    monkeypatch.setitem(sys.modules, "google.cloud.compute_v1", None)
    monkeypatch.setitem(sys.modules, "google.auth", None)
    for of_config in (clouds_of, identities_of):
        with pytest.raises(BadSettings, match=r"install determined-serverless\[gcp\]"):
            of_config(config)


def test_nothing_of_google_is_imported_before_a_call() -> None:
    code = (
        "import sys, det_provisioner_gcp.compute_engine as c; c.GceCompute(c.GceApi());"
        "print([m for m in sys.modules if m.startswith('google')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
