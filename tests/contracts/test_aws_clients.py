"""The endpoints of boto3 clients, and lazy loading of boto3."""

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


def test_clients_use_dual_stack_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", resolves(""))
    assert Clients().reading("ec2", REGION).meta.endpoint_url == "https://ec2.us-west-2.api.aws"
    assert "amazonaws.com" in Clients().reading("pricing", "us-east-1").meta.endpoint_url
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "false")
    assert "amazonaws.com" in Clients().reading("ec2", REGION).meta.endpoint_url


@pytest.mark.parametrize("chosen", [None, "true"])
def test_clients_fall_back_to_ipv4_endpoint(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    """A third of the regions have no documented dual-stack endpoint. A network with IPv4 reaches the IPv4 endpoint."""
    if chosen:
        monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", chosen)
    monkeypatch.setattr("socket.getaddrinfo", resolves("amazonaws.com"))
    endpoint = Clients().acting("ec2", "eu-central-2").meta.endpoint_url
    assert endpoint == "https://ec2.eu-central-2.amazonaws.com"


def test_clients_are_not_cached_while_names_do_not_resolve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients = Clients()
    monkeypatch.setattr("socket.getaddrinfo", resolves("nowhere"))
    assert "api.aws" in clients.acting("ec2", "eu-central-2").meta.endpoint_url
    monkeypatch.setattr("socket.getaddrinfo", resolves("amazonaws.com"))
    assert "amazonaws.com" in clients.acting("ec2", "eu-central-2").meta.endpoint_url


def test_no_name_is_resolved_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines behind a proxy can often resolve only names of their own network."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setattr("socket.getaddrinfo", resolves("nowhere"))
    clients = Clients()
    assert clients.acting("ec2", REGION) is clients.acting("ec2", REGION)


def resolves(domain: str) -> Callable[..., list[str]]:
    """Return a fake `getaddrinfo` in which only the hosts of a domain have addresses."""

    def resolve(host: str, port: int) -> list[str]:
        if not host.endswith(domain):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [host]

    return resolve


def test_verifying_machines_does_not_load_the_sdk() -> None:
    """boto3 would delay the first request of a Lambda function by half a second."""
    output = (
        "import sys, det_provisioner_aws; det_provisioner_aws.identity_verifiers([]);"
        "print('boto3' in sys.modules, 'botocore' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", output], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "False"]
