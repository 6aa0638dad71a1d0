"""The compute contract for EC2, simulated by moto."""

import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    BotoCoreError,
    CredentialRetrievalError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity
from det_controlplane.ports.compute import (
    LaunchOutcome,
    Refusal,
    Unreachable,
)
from det_controlplane.testing.contracts.compute import (
    CLUSTER,
    NEIGHBOUR,
    CloudUnderTest,
    ComputeContract,
    launch_request,
)
from det_provisioner_aws import fleets
from det_provisioner_aws.ec2 import Ec2Compute
from moto.ec2 import ec2_backends

from tests.support.fake_ec2 import ACCOUNT, DENIAL, Failure
from tests.support.on_ec2 import REGION, OnEc2

ROOT = Path(__file__).resolve().parents[2]


class TestEc2(ComputeContract):
    @pytest.fixture
    def cloud(self, ec2: OnEc2) -> CloudUnderTest:
        return ec2


def launch(ec2: OnEc2, settings: dict[str, Any], capacity: Capacity = Capacity.ON_DEMAND) -> Any:
    """Launch one machine of a pool with additional settings. Return EC2's description of it."""
    request = launch_request(
        ec2, ec2.offers(capacity)[:1], settings={**ec2.place.settings, **settings}
    )
    outcome = ec2.compute.launch(request)
    assert outcome.machine is not None, outcome.refusals
    answer = ec2.client.describe_instances(InstanceIds=[outcome.machine.cloud_id])
    return answer["Reservations"][0]["Instances"][0]


def refusal_of(ec2: OnEc2, capacity: Capacity = Capacity.ON_DEMAND, **settings: Any) -> Refusal:
    """Return the only refusal of a failed launch."""
    merged = {**ec2.place.settings, **settings}
    outcome = ec2.compute.launch(launch_request(ec2, ec2.offers(capacity)[:1], settings=merged))
    assert outcome.machine is None
    (refusal,) = outcome.refusals
    return refusal


def test_machines_are_launched_with_secure_settings(ec2: OnEc2) -> None:
    launch(ec2, {"root_volume_size": 300, "ssh_key_name": "ops"})
    (request,) = ec2.wire.sent("RunInstances")
    assert request["MetadataOptions.HttpTokens"] == "required"
    assert request["MetadataOptions.HttpPutResponseHopLimit"] == "1"
    assert request["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert request["BlockDeviceMapping.1.Ebs.Encrypted"] == "true"
    assert request["BlockDeviceMapping.1.Ebs.VolumeSize"] == "300"
    assert request["KeyName"] == "ops"
    assert b64decode(request["UserData"]).startswith(b"#!/bin/sh")


def test_machines_have_the_tags_for_finding_them(ec2: OnEc2) -> None:
    custom = [{"key": "team", "value": "vision"}]
    instance = launch(ec2, {"custom_tags": custom, "tag_value": "us"})
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags.keys() == {
        "Name", "managed_by", "team", "determined-cluster", "determined-machine",
        "determined-launch", "determined-resource-pool",
    }  # fmt: skip
    assert (tags["team"], tags["managed_by"], tags["Name"]) == ("vision", "us", "determined-ai-agent")  # fmt: skip
    volumes = ec2.client.describe_volumes(
        Filters=[{"Name": "tag:determined-machine", "Values": [tags["determined-machine"]]}]
    )
    assert len(volumes["Volumes"]) == 1


def test_spot_requests_have_the_cluster_tag(ec2: OnEc2) -> None:
    """Policies that require tags on new resources also apply to these requests."""
    launch(ec2, {}, Capacity.SPOT)
    assert launch_fleet(ec2, 220).machine is not None
    (run,) = ec2.wire.sent("RunInstances")
    (template,) = ec2.wire.sent("CreateLaunchTemplate")
    for request, prefix in ((run, ""), (template, "LaunchTemplateData.")):
        kind = f"{prefix}TagSpecification"
        (number,) = [
            name.split(".")[-2]
            for name, value in request.items()
            if name.startswith(kind) and value == "spot-instances-request"
        ]
        tags = {v for n, v in request.items() if n.startswith(kind) and f".{number}.Tag" in n}
        assert {"determined-cluster", CLUSTER} <= tags


def test_uses_the_subnet_of_the_offers_zone(ec2: OnEc2) -> None:
    subnets = ec2.client.describe_subnets()["Subnets"]
    ids = [s["SubnetId"] for s in subnets]
    instance = launch(ec2, {"network_interface": {"subnet_ids": ids, "public_ip": False}})
    (in_zone,) = [s["SubnetId"] for s in subnets if s["AvailabilityZone"] == f"{REGION}a"]
    assert instance["SubnetId"] == in_zone
    (request,) = ec2.wire.sent("RunInstances")
    assert request["NetworkInterface.1.AssociatePublicIpAddress"] == "false"


def test_refusal_for_zone_without_a_subnet_has_the_remedy(ec2: OnEc2) -> None:
    subnets = ec2.client.describe_subnets()["Subnets"]
    other_subnet = next(s["SubnetId"] for s in subnets if s["AvailabilityZone"] == f"{REGION}b")
    refusal = refusal_of(ec2, network_interface={"subnet_id": other_subnet})
    assert refusal.kind is RefusalKind.INVALID
    assert f"no subnet in {REGION}a, add one to network_interface.subnet_ids" in refusal.sentence
    assert ec2.wire.sent("RunInstances") == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"root_volume_size": 20}, "root_volume_size"),
        ({"root_volume_size": "big"}, "root_volume_size"),
        ({"image_id": "ssm:/no/such/parameter"}, "/no/such/parameter"),
        ({"image_id": "ami-00000000000000000"}, "ami-00000000000000000"),
        ({"efa_interfaces": 4}, "public_ip"),
        ({"custom_tags": [{"team": "vision"}]}, "custom_tags"),
        ({"network_interface": "subnet-1"}, "network_interface"),
        ({"network_interface": {"subnet_id": "subnet-00000000"}}, "subnet-00000000"),
    ],
)
def test_refusal_names_bad_settings(ec2: OnEc2, settings: dict[str, Any], named: str) -> None:
    refusal = refusal_of(ec2, **settings)
    assert refusal.kind is RefusalKind.INVALID
    assert named in refusal.sentence


def test_image_can_be_an_ssm_parameter(ec2: OnEc2, moto_url: str) -> None:
    image = ec2.place.settings["image_id"]
    ssm = boto3.client("ssm", region_name=REGION, endpoint_url=moto_url)
    ssm.put_parameter(Name="/images/gpu", Value=image, Type="String")
    assert launch(ec2, {"image_id": "ssm:/images/gpu"})["ImageId"] == image


def test_exact_placements_are_tried_one_after_the_other(ec2: OnEc2) -> None:
    settings = {**ec2.place.settings, "efa_interfaces": 1, "capacity_reservation_id": "cr-1"}
    first, second = ec2.offers(Capacity.ON_DEMAND)
    ec2.refuse(first, RefusalKind.NO_CAPACITY)
    outcome = ec2.compute.launch(launch_request(ec2, [first, second], settings=settings))
    assert outcome.machine is not None
    assert outcome.machine.machine_type == second.machine_type
    requests = ec2.wire.sent("RunInstances")
    assert [t["InstanceType"] for t in requests] == [first.machine_type, second.machine_type]
    assert len({t["ClientToken"] for t in requests}) == 2, (
        "EC2 takes a token for one set of parameters"
    )
    assert requests[0]["NetworkInterface.1.InterfaceType"] == "efa"
    reservation = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
    assert requests[0][reservation] == "cr-1"


def test_machines_use_the_placement_group_of_their_section(ec2: OnEc2) -> None:
    launch(ec2, {"placement_group": "near"})
    (request,) = ec2.wire.sent("RunInstances")
    assert request["Placement.GroupName"] == "near"


def test_each_interface_has_its_own_card(ec2: OnEc2) -> None:
    launch(ec2, {"efa_interfaces": 2, "network_interface": {"public_ip": False}})
    (request,) = ec2.wire.sent("RunInstances")
    of_each = [
        (
            request[f"NetworkInterface.{n}.DeviceIndex"],
            request[f"NetworkInterface.{n}.NetworkCardIndex"],
        )
        for n in (1, 2)
    ]
    assert of_each == [("0", "0"), ("1", "1")]
    assert "NetworkInterface.1.AssociatePublicIpAddress" not in request


def test_no_further_calls_after_a_denial(ec2: OnEc2) -> None:
    settings = {**ec2.place.settings, "efa_interfaces": 1}
    offers = ec2.offers(Capacity.ON_DEMAND)
    ec2.refuse(offers[0], RefusalKind.DENIED)
    outcome = ec2.compute.launch(launch_request(ec2, offers, settings=settings))
    assert (outcome.machine, len(outcome.refusals)) == (None, 1)
    assert len(ec2.wire.sent("RunInstances")) == 1


def test_spot_machines_are_chosen_by_price_and_capacity(ec2: OnEc2) -> None:
    settings = {**ec2.place.settings, "spot_max_price": "1.5"}
    for capacity in Capacity:
        ec2.compute.launch(launch_request(ec2, ec2.offers(capacity), settings=settings))
    on_spot, on_demand = ec2.wire.sent("CreateFleet")
    assert on_spot["SpotOptions.AllocationStrategy"] == "price-capacity-optimized"
    assert on_spot["LaunchTemplateConfigs.1.Overrides.1.MaxPrice"] == "1.5"
    assert on_demand["OnDemandOptions.AllocationStrategy"] == "prioritized"
    ranks = [on_demand[f"LaunchTemplateConfigs.1.Overrides.{n}.Priority"] for n in (1, 2)]
    assert ranks == ["0.0", "1.0"]
    assert on_spot["Type"] == on_demand["Type"] == "instant"


@pytest.fixture
def subnets_of_a_zone(ec2: OnEc2) -> Iterator[list[str]]:
    subnets = ec2.client.describe_subnets()["Subnets"]
    (usual,) = [s for s in subnets if s["AvailabilityZone"] == f"{REGION}a"]
    more = ec2.client.create_subnet(
        VpcId=usual["VpcId"], CidrBlock="172.31.200.0/24", AvailabilityZone=f"{REGION}a"
    )["Subnet"]["SubnetId"]
    yield [usual["SubnetId"], more]
    ec2_backends[ACCOUNT][REGION].reservations.clear()
    ec2.client.delete_subnet(SubnetId=more)


def test_fleet_has_each_type_once_for_each_zone(ec2: OnEc2, subnets_of_a_zone: list[str]) -> None:
    """EC2 rejects other fleets with `InvalidFleetConfig`: "contains duplicate instance pools"."""
    settings = {**ec2.place.settings, "network_interface": {"subnet_ids": subnets_of_a_zone}}
    offers = ec2.offers(Capacity.SPOT)
    assert ec2.compute.launch(launch_request(ec2, offers, settings=settings)).machine is not None
    (request,) = ec2.wire.sent("CreateFleet")
    types = [v for k, v in request.items() if "Overrides" in k and k.endswith("InstanceType")]
    assert types == [offer.machine_type for offer in offers]


def test_every_subnet_of_a_single_zone_is_tried(ec2: OnEc2, subnets_of_a_zone: list[str]) -> None:
    ec2.wire.failing_actions["RunInstances"] = Failure("InsufficientFreeAddressesInSubnet")
    refusal_of(ec2, network_interface={"subnet_ids": subnets_of_a_zone})
    subnets = [request["NetworkInterface.1.SubnetId"] for request in ec2.wire.sent("RunInstances")]
    assert subnets == subnets_of_a_zone


def test_pool_uses_one_template_until_its_settings_change(ec2: OnEc2) -> None:
    offers = ec2.offers(Capacity.SPOT)
    for size in (150, 150, 160):
        settings = {**ec2.place.settings, "root_volume_size": size}
        second_client = Ec2Compute(ec2.client.meta.endpoint_url)  # as in another process
        assert (
            second_client.launch(launch_request(ec2, offers, settings=settings)).machine is not None
        )
    used = [
        request["LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName"]
        for request in ec2.wire.sent("CreateFleet")
    ]
    assert used[0] == used[1] != used[2]
    request = ec2.wire.sent("CreateLaunchTemplate")[0]
    assert request["LaunchTemplateData.MetadataOptions.HttpTokens"] == "required"
    assert b64decode(request["LaunchTemplateData.UserData"]).startswith(b"#!/bin/sh")


def launch_fleet(ec2: OnEc2, root_gib: int, cluster_id: str = CLUSTER) -> LaunchOutcome:
    settings = {**ec2.place.settings, "root_volume_size": root_gib}
    offers = ec2.offers(Capacity.SPOT)
    return ec2.compute.launch(launch_request(ec2, offers, settings=settings, cluster_id=cluster_id))


def templates(ec2: OnEc2) -> list[str]:
    Launch_templates = ec2.client.describe_launch_templates()["LaunchTemplates"]
    return [t["LaunchTemplateName"] for t in Launch_templates]


def test_deleted_template_is_created_again(ec2: OnEc2) -> None:
    before = set(templates(ec2))
    assert launch_fleet(ec2, 165).machine is not None
    (template,) = set(templates(ec2)) - before
    ec2.client.delete_launch_template(LaunchTemplateName=template)
    assert launch_fleet(ec2, 165).machine is not None


def test_old_templates_of_the_pool_are_deleted(ec2: OnEc2, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch_fleet(ec2, 170, NEIGHBOUR).machine is not None
    assert launch_fleet(ec2, 180).machine is not None
    before = set(templates(ec2))
    monkeypatch.setattr(fleets, "TEMPLATE_LIFE", timedelta(seconds=-60))
    assert launch_fleet(ec2, 190).machine is not None
    remaining = set(templates(ec2))
    assert len(remaining - before) == 1
    assert [name for name in remaining & before if CLUSTER in name] == []
    assert [name for name in remaining & before if NEIGHBOUR in name] != []


def test_offer_without_a_zone_is_refused_in_all_zones(ec2: OnEc2) -> None:
    best = replace(ec2.offers(Capacity.SPOT)[0], zone="")
    ec2.refuse(best, RefusalKind.NO_CAPACITY)
    outcome = ec2.compute.launch(launch_request(ec2, [best]))
    (refusal,) = outcome.refusals
    assert refusal.scope.zone == ""
    assert refusal.scope.covers(best)


def test_fleet_without_machine_and_errors_is_retried(ec2: OnEc2) -> None:
    """Retry if it is unknown whether EC2 launched a machine."""
    body = b"<fleetId>fleet-1</fleetId>"
    ec2.wire.answers["CreateFleet"] = b"<CreateFleetResponse>%s</CreateFleetResponse>" % body
    with pytest.raises(Unreachable, match="fleet-1"):
        ec2.compute.launch(launch_request(ec2, ec2.offers(Capacity.SPOT)))


def test_internal_error_of_ec2_is_unreachable(ec2: OnEc2) -> None:
    ec2.wire.failing_actions["RunInstances"] = Failure("InternalError", "An internal error", 500)
    with pytest.raises(Unreachable, match="An internal error"):
        ec2.compute.launch(launch_request(ec2))


def test_refusal_hints_at_zones_with_capacity(ec2: OnEc2) -> None:
    ec2.refuse(ec2.offers(Capacity.ON_DEMAND)[0], RefusalKind.NO_CAPACITY)
    assert refusal_of(ec2).hint == ("us-west-2b", "us-west-2c")


def test_refusal_names_exhausted_quota(ec2: OnEc2) -> None:
    for capacity, quota in ((Capacity.ON_DEMAND, "L-DB2E81BA"), (Capacity.SPOT, "L-3819A6DF")):
        ec2.refuse(ec2.offers(capacity)[0], RefusalKind.QUOTA)
        assert quota in refusal_of(ec2, capacity).sentence


def test_refusal_names_missing_permission(ec2: OnEc2) -> None:
    ec2.refuse(ec2.offers(Capacity.ON_DEMAND)[0], RefusalKind.DENIED)
    sentence = refusal_of(ec2).sentence
    assert "Grant ec2:RunInstances on arn:aws:ec2:us-west-2:123456789012:instance/*" in sentence
    assert "Zm9v" not in sentence


def test_encoded_denial_is_decoded(ec2: OnEc2) -> None:
    coded = "You are not authorized to perform this operation. Encoded authorization failure message: Zm9v"
    ec2.wire.failing_actions["RunInstances"] = Failure("UnauthorizedOperation", coded, 403)
    message = json.dumps({"context": {"action": "iam:PassRole", "resource": "arn:aws:iam::1:role/agent"}})  # fmt: skip
    ec2.wire.answers["DecodeAuthorizationMessage"] = (
        "<DecodeAuthorizationMessageResponse><DecodeAuthorizationMessageResult><DecodedMessage>"
        f"{message}</DecodedMessage></DecodeAuthorizationMessageResult></DecodeAuthorizationMessageResponse>"
    ).encode()
    assert "Grant iam:PassRole on arn:aws:iam::1:role/agent" in refusal_of(ec2).sentence
    del ec2.wire.answers["DecodeAuthorizationMessage"]
    ec2.wire.failing_actions["DecodeAuthorizationMessage"] = Failure("AccessDenied", "no", 403)
    assert "Check the rights" in refusal_of(ec2).sentence


@pytest.mark.parametrize(
    ("code", "hint"), [("Server.Some", ""), ("Client.InternalError", "the key of KMS")]
)
def test_ended_machine_has_a_reason(ec2: OnEc2, code: str, hint: str) -> None:
    """A key without permission ends machines although no call fails."""
    machine = ec2.compute.launch(launch_request(ec2)).machine
    assert machine is not None
    assert ec2.compute.owned(CLUSTER, ec2.place)[0].ended_because == ""
    instance = ec2_backends[ACCOUNT][REGION].get_instance(machine.cloud_id)
    instance.terminate()
    instance.state_reason.code, instance.state_reason.message = code, f"{code}: what EC2 says"
    (ended_machine,) = ec2.compute.owned(CLUSTER, ec2.place)
    reason, _, more = ended_machine.ended_because.partition(" (")
    assert (ended_machine.state, reason) == ("gone", f"{code}: what EC2 says")
    assert (hint in more) if hint else (not more)


def test_protected_machine_is_reported(ec2: OnEc2) -> None:
    machine = ec2.compute.launch(launch_request(ec2)).machine
    assert machine is not None
    ec2.wire.failing_actions["TerminateInstances"] = Failure(
        "OperationNotPermitted", "The instance may not be terminated. Modify its 'disableApiTermination'"
    )  # fmt: skip
    (refusal,) = ec2.compute.terminate([machine])
    assert "disableApiTermination" in refusal.sentence


def test_missing_credentials_are_a_denial(ec2: OnEc2, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.credentials.CredentialResolver.load_credentials", lambda _: None)
    ec2.compute = Ec2Compute(ec2.client.meta.endpoint_url)
    assert refusal_of(ec2).kind is RefusalKind.DENIED
    with pytest.raises(Unreachable, match="credentials"):
        ec2.compute.owned(CLUSTER, ec2.place)


@pytest.mark.parametrize(
    "error",
    [
        CredentialRetrievalError(provider="google-identity", error_msg="the role trusts nobody"),
        UnauthorizedSSOTokenError(),
        TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"),
    ],
)
def test_expired_or_unavailable_credentials_are_a_denial(
    ec2: OnEc2, monkeypatch: pytest.MonkeyPatch, error: BotoCoreError
) -> None:
    """No request was sent: other clouds are called meanwhile, and the pool shows the problem."""

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("botocore.credentials.CredentialResolver.load_credentials", fail)
    ec2.compute = Ec2Compute(ec2.client.meta.endpoint_url)
    refusal = refusal_of(ec2)
    assert refusal.kind is RefusalKind.DENIED
    assert str(error).rstrip(".") in refusal.sentence


def test_denied_listing_names_missing_permission(ec2: OnEc2) -> None:
    """An empty list would look as if every machine were gone."""
    failure = Failure("UnauthorizedOperation", DENIAL.replace("RunInstances", "DescribeInstances"), 403)  # fmt: skip
    ec2.wire.failing_actions["DescribeInstances"] = failure
    with pytest.raises(Unreachable, match="Grant ec2:DescribeInstances"):
        ec2.compute.owned(CLUSTER, ec2.place)
    assert refusal_of(ec2).kind is RefusalKind.DENIED


def test_every_action_is_documented_as_a_permission(ec2: OnEc2) -> None:
    machine = launch_fleet(ec2, 210).machine
    assert machine is not None
    ec2.compute.launch(launch_request(ec2))
    ec2.compute.console(machine, ec2.place)
    ec2.compute.terminate(ec2.compute.owned(CLUSTER, ec2.place))
    page = (ROOT / "docs/reference/aws.md").read_text("utf-8")
    actions = {action for action, _ in ec2.wire.requests}
    assert actions >= {"CreateFleet", "RunInstances", "TerminateInstances"}
    assert [action for action in actions if f"`ec2:{action}`" not in page] == []
