"""Resolve AWS's names in a network that only IPv6 leaves. The database has IPv4 addresses within the network."""

import socket
from collections.abc import Callable, Mapping
from typing import Any

# Domains of AWS's services; the names of databases have an address for IPv4 alone.
_SERVICES = (".api.aws", ".amazonaws.com", ".amazonaws.com.cn")
_DATABASES = ".rds."
_Resolve = Callable[..., list[Any]]


def resolve_by_ipv6(environment: Mapping[str, str]) -> None:
    """Let this process find AWS's services at IPv6 addresses only, where the deployment asks for it.

    A client that also had IPv4 addresses would wait on each of them until its limit, as no packet comes back."""
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


# Without such an address the service is asked at the one that it has: an endpoint of the network may answer there.
_NO_ADDRESS = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def _is_service(host: Any) -> bool:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
    return name.endswith(_SERVICES) and _DATABASES not in name
