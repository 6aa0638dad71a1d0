"""In a network without IPv4 access to the internet, clients of AWS do not try IPv4 addresses."""

import socket
import subprocess
import sys
from typing import Any

import pytest
from det_controlplane.entry import aws_addresses

V4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))
V6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 443, 0, 0))
DUAL = (
    "lambda.us-west-2.api.aws",
    "s3.dualstack.us-west-2.amazonaws.com",
    "abc.lambda-url.us-west-2.on.aws",
)


def resolve(host: Any, port: Any, family: int = 0, *more: Any, **options: Any) -> list[Any]:
    """Answer like a resolver that has IPv4 and IPv6 addresses for some names."""
    candidates = [V6, V4] if host in DUAL else [V4]
    addresses = [one for one in candidates if family in (socket.AF_UNSPEC, one[0])]
    if not addresses:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    return addresses


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    def start(**environment: str) -> Any:
        aws_addresses.resolve_by_ipv6(environment)
        return socket.getaddrinfo

    return start


@pytest.mark.parametrize("host", DUAL)
def test_dual_stack_services_resolve_only_to_ipv6(resolver: Any, host: str) -> None:
    assert resolver(DET_AWS_IPV6_ONLY="true")(host, 443) == [V6]


@pytest.mark.parametrize(
    "host", ["db.cluster-x.us-west-2.rds.amazonaws.com", "ec2.eu-south-2.amazonaws.com", "example.org"]
)  # fmt: skip
def test_ipv4_only_names_resolve_to_ipv4(resolver: Any, host: str) -> None:
    assert resolver(DET_AWS_IPV6_ONLY="true")(host, 443) == [V4]


def test_explicit_ipv4_request_resolves_to_ipv4(resolver: Any) -> None:
    assert resolver(DET_AWS_IPV6_ONLY="true")(DUAL[0], 443, socket.AF_INET) == [V4]


@pytest.mark.parametrize("environment", [{}, {"DET_AWS_IPV6_ONLY": "false"}])
def test_resolver_is_unchanged_without_the_setting(
    resolver: Any, environment: dict[str, str]
) -> None:
    assert resolver(**environment)(DUAL[0], 443) == [V6, V4]


def test_functions_use_the_ipv6_resolver_from_their_start() -> None:
    program = "import socket, det_controlplane.entry.aws.chalice_app; print(socket.getaddrinfo.__module__)"
    result = subprocess.run(
        [sys.executable, "-c", program], env={"DET_AWS_IPV6_ONLY": "true", "AWS_DEFAULT_REGION": "us-west-2"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.strip() == "det_controlplane.entry.aws_addresses"


def test_relay_uses_the_ipv6_resolver_from_its_start() -> None:
    program = (
        "import os, socket; from det_controlplane.entry.container import main; main.main();"
        " print(socket.getaddrinfo.__module__)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env={"DET_AWS_IPV6_ONLY": "true", "DET_ROLE": "none"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stdout.strip() == "det_controlplane.entry.aws_addresses", result.stderr
