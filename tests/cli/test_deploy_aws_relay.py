"""The removal of a network with resources of AWS services: CloudFront for a relay, GuardDuty for machines."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models import EC2Backend

from tests.cli.conftest import Det
from tests.support.aws_account import MADE, Account
from tests.support.fake_terraform import FakeTerraform, error_event

RELAY = {
    "mode": "managed", "module": "module.relay[0]", "type": "aws_cloudfront_vpc_origin",
    "name": "this", "instances": [{}],
}  # fmt: skip
WITH_RELAY = {"out": json.dumps({"resources": [*MADE["resources"], RELAY]})}
WITHOUT = {"out": json.dumps(MADE)}
NETWORK_HELD = error_event(
    "deleting EC2 VPC (vpc-1)", "api error DependencyViolation: has dependencies"
)

MakeGroup = Callable[[str], str]


def make_network(account: Account, cluster: str) -> str:
    tags = [{"Key": "determined-cluster", "Value": cluster}]
    response = account.client("ec2").create_vpc(
        CidrBlock="10.60.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}]
    )
    return str(response["Vpc"]["VpcId"])


@pytest.fixture
def make_group(account: Account) -> MakeGroup:
    """Return a function that creates CloudFront's security group in a cluster's network and returns its id."""

    def make(cluster: str) -> str:
        response = account.client("ec2").create_security_group(
            GroupName="CloudFront-VPCOrigins-Service-SG",
            Description="its own",
            VpcId=make_network(account, cluster),
        )
        return str(response["GroupId"])

    return make


def guard(account: Account, network: str) -> tuple[str, str]:
    """Create the endpoint and the security group that GuardDuty creates in a network with machines."""
    ec2 = account.client("ec2")
    group = ec2.create_security_group(
        GroupName=f"GuardDutyManagedSecurityGroup-{network}", Description="its own", VpcId=network
    )["GroupId"]
    response = ec2.create_vpc_endpoint(
        VpcId=network, VpcEndpointType="Interface", SecurityGroupIds=[group],
        ServiceName="com.amazonaws.us-west-2.guardduty-data",
    )  # fmt: skip
    return str(response["VpcEndpoint"]["VpcEndpointId"]), str(group)


def groups(account: Account) -> set[str]:
    all_groups = account.client("ec2").describe_security_groups()["SecurityGroups"]
    return {group["GroupId"] for group in all_groups}


@pytest.mark.parametrize(("state", "destroyed"), [(WITH_RELAY, 2), (WITHOUT, 1)])
def test_removes_the_group_of_cloudfront_before_the_network(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    make_group: MakeGroup,
    state: dict[str, Any],
    destroyed: int,
) -> None:
    """The relay may have been disabled before. Groups of other clusters are kept."""
    account.has_cluster()
    own_group, others = make_group("box"), make_group("other")
    terraform.answers(output={"out": "{}"}, state_pull=state)
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert result.code == 0, result.err
    assert groups(account) & {own_group, others} == {others}
    calls = terraform.calls("destroy")
    assert ["-target=module.relay" in call["words"] for call in calls] == [True, False][-destroyed:]


def test_reports_a_group_that_cloudfront_still_uses(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    make_group: MakeGroup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account.has_cluster()
    group = make_group("box")

    def refuse(*_: object, **__: object) -> None:
        raise DependencyViolationError(f"resource {group} has a dependent object")

    monkeypatch.setattr(EC2Backend, "delete_security_group", refuse)
    destroy_error = {"out": NETWORK_HELD, "code": 1}
    terraform.answers(output={"out": "{}"}, state_pull=WITHOUT, destroy=destroy_error)
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert result.code == 1
    assert f"CloudFront still uses the security group {group}" in result.err
    assert "run the same command again in a few minutes" in result.err
    assert det("deploy", "aws", "list", *account.where[2:]).out.split() == ["box"]


def test_reports_aws_s_own_error_for_a_network_with_other_dependencies(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    destroy_error = {"out": NETWORK_HELD, "code": 1}
    terraform.answers(output={"out": "{}"}, state_pull=WITHOUT, destroy=destroy_error)
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert (result.code, "deleting EC2 VPC (vpc-1)" in result.err) == (1, True)
    assert "CloudFront" not in result.err


def test_removes_the_resources_of_guardduty_before_the_network(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    network = make_network(account, "box")
    endpoint, group = guard(account, network)
    others = guard(account, make_network(account, "other"))
    s3 = account.client("ec2").create_vpc_endpoint(
        VpcId=network, ServiceName="com.amazonaws.us-west-2.s3"
    )
    terraform.answers(output={"out": "{}"}, state_pull=WITHOUT)
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert result.code == 0, result.err
    assert groups(account) & {group, others[1]} == {others[1]}
    Vpc_endpoints = account.client("ec2").describe_vpc_endpoints()["VpcEndpoints"]
    remaining = {e["VpcEndpointId"] for e in Vpc_endpoints if e["State"] != "deleted"}
    assert remaining & {endpoint, others[0]} == {others[0]}
    assert s3["VpcEndpoint"]["VpcEndpointId"] in remaining, "Terraform removes its own endpoint"
