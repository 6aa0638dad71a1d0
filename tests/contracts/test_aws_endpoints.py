"""Every service that functions call has a dual-stack endpoint, because subnets without NAT only have IPv6."""

import re
from pathlib import Path

import boto3
import pytest
from botocore.loaders import Loader
from det_controlplane.core.agent_protocol import sts_host
from det_provisioner_aws.clients import Clients

from tests.support.aws_calls import documented_calls

ROOT = Path(__file__).parents[2]
PACKAGED = ("controlplane/det_controlplane", "provisioners/aws/det_provisioner_aws")
REGIONS = ("us-east-1", "us-west-2", "eu-central-1", "ap-northeast-1")
_ASKED = re.compile(r"\b(?:_?client|reading|acting)\(\s*\"([a-z0-9-]+)\"")
# Services of the code that functions do not call. The price list has no IPv6 address.
NEVER_FROM_INSIDE = {"pricing"}


@pytest.fixture
def in_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")
    monkeypatch.setattr("socket.getaddrinfo", lambda host, port: [host])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


@pytest.mark.usefixtures("in_a_function")
@pytest.mark.parametrize("region", REGIONS)
def test_clients_resolve_documented_endpoints(region: str) -> None:
    documented = {c.service: c.host.replace("REGION", region) for c in documented_calls()}
    endpoints = {
        service: boto3.client(service, region_name=region).meta.endpoint_url.partition("://")[2]
        for service in documented
    }
    assert endpoints == documented
    assert documented["sts"] == sts_host(region)
    for service in ("ec2", "ssm"):
        of_provisioner = Clients().reading(service, region).meta.endpoint_url
        assert of_provisioner == f"https://{documented[service]}"


def test_services_of_the_code_are_documented_or_not_called_by_functions() -> None:
    used_services = {
        service
        for package in PACKAGED
        for path in (ROOT / package).rglob("*.py")
        for service in _ASKED.findall(path.read_text())
    }
    documented = {c.service for c in documented_calls()}
    assert used_services == documented | NEVER_FROM_INSIDE
    all_services = set(Loader().list_available_services("service-2"))
    assert used_services <= all_services


def test_function_roles_only_name_reachable_services() -> None:
    roles = (ROOT / "infra/terraform/modules/aws/controlplane/roles.tf").read_text()
    of_functions = roles.partition('data "aws_iam_policy_document" "function"')[2]
    of_functions = of_functions.partition('resource "aws_iam_role" "scheduler"')[0]
    actions = set(re.findall(r"\"([a-z0-9]+):[A-Z]\w+\"", of_functions))
    by_lambda_itself = {"logs"}
    # Permissions within EC2 and scheduler calls, and condition keys.
    no_calls = {"iam", "kms", "aws"}
    documented = {c.service for c in documented_calls()}
    assert actions - by_lambda_itself - no_calls <= documented
