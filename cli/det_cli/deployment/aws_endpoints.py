"""Check the IPv6 endpoints of regions. Without a NAT gateway, functions can reach AWS only by IPv6."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from det_cli.errors import CommandError

# Services that the functions call in the cluster's region, and in each region where pools rent.
_AT_HOME = ("lambda", "scheduler")
_AT_MACHINES = ("ec2", "ssm", "sts")
# This partition has other domains, so it is not checked.
_ELSEWHERE = "cn-"


def resolves(host: str) -> bool:
    """Return True if the host name resolves, or if the resolver is unavailable."""
    try:
        socket.getaddrinfo(host, 443)
    except socket.gaierror as e:
        return e.errno == socket.EAI_AGAIN
    return True


def check(region: str, rented: Sequence[str], variables: Mapping[str, Any]) -> None:
    """Raise CommandError for regions that the functions cannot reach.

    If the IPv4 name does not resolve either, this machine uses a proxy and the result is unknown."""
    if not variables.get("machine_external_ip", True):
        return
    missing = [
        f"{service}.{place}.api.aws"
        for service, place in _endpoints(region, rented)
        if not resolves(f"{service}.{place}.api.aws")
        and resolves(f"{service}.{place}.amazonaws.com")
    ]
    if missing:
        raise CommandError(
            f"AWS has no endpoints {', '.join(missing)}, so the functions, which use IPv6 only, cannot rent machines",
            "add `--var machine_external_ip=false` to use IPv4 with a NAT gateway ($36.50 a month), or give another"
            " region; most regions have these endpoints",
        )


def _endpoints(region: str, rented: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not region.startswith(_ELSEWHERE):
        yield from ((service, region) for service in _AT_HOME)
        yield from (
            (service, place) for place in sorted({region, *rented}) for service in _AT_MACHINES
        )
