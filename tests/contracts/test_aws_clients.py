"""Clients of boto3: which endpoints they reach, and when they are loaded at all."""

import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
from det_provisioner_aws.clients import Clients

REGION = "us-west-2"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")


def test_clients_reach_dual_stack_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", resolves(""))
    assert Clients().reading("ec2", REGION).meta.endpoint_url == "https://ec2.us-west-2.api.aws"
    assert "amazonaws.com" in Clients().reading("pricing", "us-east-1").meta.endpoint_url
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "false")
    assert "amazonaws.com" in Clients().reading("ec2", REGION).meta.endpoint_url


@pytest.mark.parametrize("chosen", [None, "true"])
def test_where_ec2_has_no_dual_stack_endpoint_clients_take_the_other(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    """AWS documents none in a third of its regions; a network with IPv4 reaches the usual one."""
    if chosen:
        monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", chosen)
    monkeypatch.setattr("socket.getaddrinfo", resolves("amazonaws.com"))
    there = Clients().acting("ec2", "eu-central-2").meta.endpoint_url
    assert there == "https://ec2.eu-central-2.amazonaws.com"


def test_clients_made_while_no_name_is_resolved_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients = Clients()
    monkeypatch.setattr("socket.getaddrinfo", resolves("nowhere"))
    assert "api.aws" in clients.acting("ec2", "eu-central-2").meta.endpoint_url
    monkeypatch.setattr("socket.getaddrinfo", resolves("amazonaws.com"))
    assert "amazonaws.com" in clients.acting("ec2", "eu-central-2").meta.endpoint_url


def test_behind_a_proxy_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network's own names are often all that a machine there can resolve."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setattr("socket.getaddrinfo", resolves("nowhere"))
    clients = Clients()
    assert clients.acting("ec2", REGION) is clients.acting("ec2", REGION)


def resolves(domain: str) -> Callable[..., list[str]]:
    """Return what stands in for `getaddrinfo` where only the hosts of a domain have addresses."""

    def resolve(host: str, port: int) -> list[str]:
        if not host.endswith(domain):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [host]

    return resolve


def test_an_api_that_verifies_machines_loads_no_sdk() -> None:
    """Lambda functions start with a request in their hands; boto3 would cost them half a second."""
    told = (
        "import sys, det_provisioner_aws; det_provisioner_aws.identity_verifiers([]);"
        "print('boto3' in sys.modules, 'botocore' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]
