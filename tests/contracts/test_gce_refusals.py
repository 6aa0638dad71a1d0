"""Refusals of Compute Engine and their reports."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.ports.compute import Unreachable
from det_controlplane.testing.contracts.compute import launch_request
from det_provisioner_gcp.api import GceApi
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError, RefreshError, TransportError

from tests.support.fake_gce import GceError, denied, quota, stockout
from tests.support.fake_gce.errors import OperationError
from tests.support.gce_provider import PROJECT, REGION, ZONE, Gce, body_of, offer, provided


@pytest.fixture
def cloud() -> Iterator[Gce]:
    with provided() as gce:
        yield gce


def test_stockout_hints_at_zones_with_capacity(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "e2-standard-4", ["us-central1-c", "us-central1-f"]))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer()])).refusals
    assert refusal.hint == ("us-central1-c", "us-central1-f")
    assert refusal.scope.zone == ZONE
    assert "us-central1-c" in refusal.sentence


def test_next_zone_is_tried_after_a_stockout(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "e2-standard-4"), zone=ZONE)
    offers = [offer(), offer(zone="us-central1-b")]
    outcome = cloud.compute.launch(launch_request(cloud, offers))
    assert outcome.machine is not None
    assert outcome.machine.zone == "us-central1-b"
    assert [r.scope.zone for r in outcome.refusals] == [ZONE]


def test_repeated_request_returns_reason_of_a_later_failure(cloud: Gce) -> None:
    cloud.fake.operation_s = 60.0
    cloud.give(stockout(ZONE, "e2-standard-4", ["us-central1-b"]), zone=ZONE)
    request = launch_request(cloud, [offer()])
    machine = cloud.compute.launch(request).machine
    assert machine is not None
    assert machine.state == "pending"
    assert [m.state for m in cloud.compute.owned(request.cluster_id, cloud.place)] == ["pending"]
    cloud.sleep(120)
    assert list(cloud.compute.owned(request.cluster_id, cloud.place)) == []
    cloud.allow()
    cloud.fake.forget_request_ids()
    second_outcome = cloud.compute.launch(request)
    assert second_outcome.machine is None
    assert [(r.kind, r.hint) for r in second_outcome.refusals] == [
        (RefusalKind.NO_CAPACITY, ("us-central1-b",))
    ]


def test_repeated_request_after_a_later_failure_starts_no_machine(cloud: Gce) -> None:
    cloud.fake.operation_s = 60.0
    cloud.give(stockout(ZONE, "g2-standard-8"), "g2-standard-8")
    request = launch_request(cloud, cloud.offers(Capacity.SPOT))
    assert cloud.compute.launch(request).machine is not None
    cloud.sleep(120)
    second_outcome = cloud.compute.launch(request)
    assert second_outcome.machine is None
    assert [r.scope.machine_type for r in second_outcome.refusals] == ["g2-standard-8"]
    assert cloud.fake.listed(PROJECT) == []


def test_refusals_before_a_lost_response_are_returned_with_the_machine(cloud: Gce) -> None:
    first, second = cloud.offers(Capacity.SPOT)
    cloud.give(stockout(ZONE, first.machine_type), first.machine_type)
    request = launch_request(cloud, [first, second])
    outcome = cloud.compute.launch(request)
    assert cloud.compute.launch(request) == outcome
    assert outcome.machine is not None
    assert [r.scope.machine_type for r in outcome.refusals] == [first.machine_type]


def test_preempted_machine_is_not_started_again_by_its_token(cloud: Gce) -> None:
    request = launch_request(cloud, cloud.offers(Capacity.SPOT))
    machine = cloud.compute.launch(request).machine
    assert machine is not None
    cloud.reclaim(machine)
    cloud.fake.forget_request_ids()
    second_machine = cloud.compute.launch(request).machine
    assert second_machine is not None
    assert (second_machine.state, second_machine.cloud_id) == ("gone", machine.cloud_id)
    assert second_machine.ended_because == "spot capacity was taken back"
    assert cloud.fake.instances == []


def test_existing_machine_with_the_name_is_returned(cloud: Gce) -> None:
    request = launch_request(cloud)
    first = cloud.compute.launch(request).machine
    cloud.fake.forget_request_ids()
    cloud.fake.operations.clear()
    assert cloud.compute.launch(request).machine == first
    assert len(cloud.fake.instances) == 1


def test_concurrent_launches_and_deletions_share_a_provider(cloud: Gce) -> None:
    requests = [launch_request(cloud) for _ in range(24)]
    with ThreadPoolExecutor(8) as pool:
        machines = [o.machine for o in pool.map(cloud.compute.launch, requests)]
    ids = [m.cloud_id for m in machines if m]
    assert len(set(ids)) == 24
    assert [m.machine_id for m in machines if m] == [r.machine_id for r in requests]
    assert list(cloud.compute.terminate([m for m in machines if m])) == []


def test_launch_waits_a_few_seconds_at_most(cloud: Gce) -> None:
    cloud.fake.operation_s = 3600.0
    before = cloud.clock[0]
    machine = cloud.compute.launch(launch_request(cloud)).machine
    assert machine is not None
    assert machine.state == "pending"
    assert 0 < cloud.clock[0] - before <= 6


def test_failure_of_a_regional_launch_has_the_zone(cloud: Gce) -> None:
    cloud.fake.operation_s = 60.0
    cloud.give(stockout(ZONE, "g2-standard-8"))
    request = launch_request(cloud, [offer("g2-standard-8", zone="")])
    assert cloud.compute.launch(request).machine is not None
    cloud.sleep(120)
    cloud.allow()
    zonal_request = replace(request, offers=(offer("g2-standard-8", zone=ZONE),))
    second_outcome = cloud.compute.launch(zonal_request)
    assert second_outcome.machine is None
    assert {r.kind for r in second_outcome.refusals} == {RefusalKind.NO_CAPACITY}
    assert ZONE in {r.scope.zone for r in second_outcome.refusals}


def test_launch_over_many_offers_has_a_time_limit(cloud: Gce) -> None:
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


def test_regional_launch_uses_the_first_zone_with_capacity(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "g2-standard-8"), "g2-standard-8", ZONE)
    anywhere = offer("g2-standard-8", zone="", capacity=Capacity.SPOT)
    machine = cloud.compute.launch(launch_request(cloud, [anywhere])).machine
    assert machine is not None
    assert (machine.zone, machine.state) == ("us-central1-b", "running")
    assert body_of(cloud, machine)["scheduling"]["provisioningModel"] == "SPOT"


def test_regional_call_chooses_types_by_rank(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "a2-highgpu-1g"), "a2-highgpu-1g")
    offers = [offer("a2-highgpu-1g", zone=""), offer("g2-standard-8", zone="")]
    machine = cloud.compute.launch(launch_request(cloud, offers)).machine
    assert machine is not None
    assert machine.machine_type == "g2-standard-8"
    assert sum("bulkInsert" in call for call in cloud.fake.calls) == 1


def test_region_without_capacity_refuses_every_requested_type(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "a2-highgpu-1g"))
    offers = [offer("a2-highgpu-1g", zone=""), offer("g2-standard-8", zone="")]
    request = launch_request(cloud, offers)
    for outcome in (cloud.compute.launch(request), cloud.compute.launch(request)):
        assert outcome.machine is None
        assert [(r.kind, r.scope.machine_type) for r in outcome.refusals] == [
            (RefusalKind.NO_CAPACITY, "a2-highgpu-1g"),
            (RefusalKind.NO_CAPACITY, "g2-standard-8"),
        ]


def test_quota_behind_a_failed_bulk_insert_is_named(cloud: Gce) -> None:
    cloud.give(quota("NVIDIA_L4_GPUS", 2.0, REGION))
    anywhere = offer("g2-standard-8", zone="")
    (refusal,) = cloud.compute.launch(launch_request(cloud, [anywhere])).refusals
    assert refusal.kind is RefusalKind.QUOTA
    assert "NVIDIA_L4_GPUS" in refusal.sentence


def test_forbidden_service_account_is_a_denial(cloud: Gce) -> None:
    """Compute Engine accepts the call, and its operation ends with this error and status 400."""
    message = "The user does not have access to service account 'vm@acme'. User: 'provision@acme'."
    cloud.give(ended_with("SERVICE_ACCOUNT_ACCESS_DENIED", message))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer()])).refusals
    assert refusal.kind is RefusalKind.DENIED
    assert message in refusal.sentence


@pytest.mark.parametrize("zone", [ZONE, ""])
def test_subnetwork_without_addresses_is_retried_later(cloud: Gce, zone: str) -> None:
    cloud.give(ended_with("IP_SPACE_EXHAUSTED_WITH_DETAILS", "IP space of 'x' is exhausted."))
    outcome = cloud.compute.launch(launch_request(cloud, [offer("g2-standard-8", zone=zone)]))
    (refusal,) = outcome.refusals
    assert (refusal.kind, refusal.scope) == (RefusalKind.NO_CAPACITY, Scope("gcp", REGION))
    assert "no free address" in refusal.sentence


def ended_with(code: str, message: str) -> OperationError:
    return OperationError(400, ({"code": code, "message": message},))


class NoSignIn(AnonymousCredentials):  # type: ignore[misc]
    """Credentials that Google rejects, or for which Google does not answer."""

    def __init__(self, error: GoogleAuthError) -> None:
        super().__init__()
        self.error = error

    def before_request(self, *_: object) -> None:
        raise self.error


def test_rejected_sign_in_is_a_denial(cloud: Gce) -> None:
    """The call was not sent, so other clouds are tried meanwhile, and the pool shows the reason."""
    message = "Unable to acquire impersonated credentials"
    cloud.compute._api = GceApi(cloud.address, NoSignIn(RefreshError(message)))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer()])).refusals
    assert refusal.kind is RefusalKind.DENIED
    assert message in refusal.sentence
    with pytest.raises(Unreachable, match=message):
        cloud.compute.owned("box", cloud.place)


@pytest.mark.parametrize(
    "error", [TransportError("no route"), RefreshError("no route", retryable=True)]
)
def test_unanswered_sign_in_is_retried(cloud: Gce, error: GoogleAuthError) -> None:
    cloud.compute._api = GceApi(cloud.address, NoSignIn(error))
    with pytest.raises(Unreachable, match="no route"):
        cloud.compute.launch(launch_request(cloud, [offer()]))


def test_zone_is_tried_after_a_failed_bulk_insert(cloud: Gce) -> None:
    cloud.give(stockout(ZONE, "g2-standard-8"), "g2-standard-8")
    offers = [offer("g2-standard-8", zone=""), offer("e2-standard-4")]
    machine = cloud.compute.launch(launch_request(cloud, offers)).machine
    assert machine is not None
    assert (machine.machine_type, machine.zone) == ("e2-standard-4", ZONE)


def test_types_that_cannot_share_a_call_are_requested_separately(cloud: Gce) -> None:
    offers = [offer("a2-highgpu-1g", zone=""), offer("g2-standard-8", zone="")]
    cloud.fake.accepts_flexibility = False
    machine = cloud.compute.launch(launch_request(cloud, offers)).machine
    assert machine is not None
    assert machine.machine_type == "a2-highgpu-1g"


def test_region_without_capacity_is_not_retried_by_the_same_token(cloud: Gce) -> None:
    cloud.give(quota("NVIDIA_L4_GPUS", 2.0, REGION))
    request = launch_request(cloud, [offer("g2-standard-8", zone="")])
    first = cloud.compute.launch(request)
    cloud.allow()
    cloud.fake.forget_request_ids()
    assert cloud.compute.launch(request) == first


def test_machine_with_unknown_zone_can_be_deleted_and_its_console_read(cloud: Gce) -> None:
    machine = cloud.compute.launch(launch_request(cloud)).machine
    assert machine is not None
    cloud.print_on_console(machine, "ready\n")
    somewhere = replace(machine, zone="")
    assert cloud.compute.console(somewhere, cloud.place) == "ready"
    assert list(cloud.compute.terminate([somewhere])) == []
    cloud.sleep(60)
    assert list(cloud.compute.owned(launch_request(cloud).cluster_id, cloud.place)) == []


def test_refusal_names_quota_with_limit_and_region(cloud: Gce) -> None:
    cloud.give(quota("NVIDIA_L4_GPUS", 1.0, REGION))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer("g2-standard-8")])).refusals
    assert refusal.kind is RefusalKind.QUOTA
    assert "NVIDIA_L4_GPUS in us-central1 allows 1 " in refusal.sentence
    assert not refusal.scope.covers(replace(offer("g2-standard-8"), region="europe-west4"))
    assert refusal.scope.covers(offer("g2-standard-8", zone="us-central1-b"))


def test_project_quota_applies_to_every_region(cloud: Gce) -> None:
    cloud.give(quota("GPUS_ALL_REGIONS", 0.0))
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer("g2-standard-8")])).refusals
    assert refusal.scope.covers(replace(offer("g2-standard-8"), region="europe-west4"))
    assert not refusal.scope.covers(offer("e2-standard-4"))


def test_missing_permission_is_named_and_requested_once(cloud: Gce) -> None:
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
def test_errors_have_the_right_kind(
    cloud: Gce, error: GceError | OperationError, kind: RefusalKind
) -> None:
    cloud.give(error)
    (refusal,) = cloud.compute.launch(launch_request(cloud, [offer()])).refusals
    assert refusal.kind is kind


@pytest.mark.parametrize("status", [500, 502, 504])
def test_response_with_unknown_effect_is_not_a_refusal(cloud: Gce, status: int) -> None:
    cloud.give(GceError(status, "backendError", "oops"))
    with pytest.raises(Unreachable, match="oops"):
        cloud.compute.launch(launch_request(cloud, [offer()]))
