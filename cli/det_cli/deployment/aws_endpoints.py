"""Look whether regions have the addresses that functions call: without a NAT gateway only IPv6 leaves their network."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from det_cli.errors import CommandError

# What the functions call in the cluster's own region, and wherever pools rent.
_AT_HOME = ("lambda", "scheduler")
_AT_MACHINES = ("ec2", "ssm", "sts")
# Of a partition that has other domains than the rest: it is not looked at.
_ELSEWHERE = "cn-"


def resolves(host: str) -> bool:
    """Tell whether a name is known; also where the resolver itself fails, as nothing can be said then."""
    try:
        socket.getaddrinfo(host, 443)
    except socket.gaierror as e:
        return e.errno == socket.EAI_AGAIN
    return True


def check(region: str, rented: Sequence[str], variables: Mapping[str, Any]) -> None:
    """Refuse regions that functions cannot call. Raises CommandError.

    A name is held against that of IPv4: a machine that resolves neither asks by a proxy, and tells nothing."""
    if not variables.get("machine_external_ip", True):
        return
    missing = [
        f"{service}.{where}.api.aws"
        for service, where in _called(region, rented)
        if not resolves(f"{service}.{where}.api.aws")
        and resolves(f"{service}.{where}.amazonaws.com")
    ]
    if missing:
        raise CommandError(
            f"AWS has no {', '.join(missing)}: the functions, from whose network IPv6 alone leaves, could rent nothing",
            "`--var machine_external_ip=false` lets IPv4 leave by a NAT gateway ($36.50 a month); or give another"
            " region, of which most have these addresses",
        )


def _called(region: str, rented: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not region.startswith(_ELSEWHERE):
        yield from ((service, region) for service in _AT_HOME)
        yield from (
            (service, where) for where in sorted({region, *rented}) for service in _AT_MACHINES
        )
