"""Resolve AWS's names in a network with IPv6 access to the internet. The database has IPv4 addresses in the network."""

import socket
from collections.abc import Callable, Mapping
from typing import Any

# Domains of AWS's services. Names of databases resolve to IPv4 only.
_SERVICES = (".api.aws", ".on.aws", ".amazonaws.com", ".amazonaws.com.cn")
_DATABASES = ".rds."
_Resolve = Callable[..., list[Any]]


def resolve_by_ipv6(environment: Mapping[str, str]) -> None:
    """Make this process resolve AWS's services to IPv6 addresses only, if the deployment sets it.

    A connection to an IPv4 address would time out, because the network has no route back."""
    if environment.get("DET_AWS_IPV6_ONLY") == "true":
        socket.getaddrinfo = _by_ipv6(socket.getaddrinfo)


def _by_ipv6(resolve: _Resolve) -> _Resolve:
    def resolved(host: Any, port: Any, family: int = 0, *more: Any, **named: Any) -> list[Any]:
        if family == socket.AF_UNSPEC and _is_service(host):
            try:
                return resolve(host, port, socket.AF_INET6, *more, **named)
            except socket.gaierror as e:
                if e.errno not in _NO_ADDRESS:
                    raise
        return resolve(host, port, family, *more, **named)

    return resolved


# A service without an IPv6 address may have an interface endpoint in the network, so use its IPv4 address.
_NO_ADDRESS = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def _is_service(host: Any) -> bool:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
    return name.endswith(_SERVICES) and _DATABASES not in name
