"""Clients of AWS services, one for each service and region."""

import os
import socket
import threading
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from botocore.config import Config

from det_provisioner_aws import federation

# Operators choose endpoints with these variables: in networks without IPv6, in regions without an endpoint, in tests.
_CHOOSING = ("AWS_USE_DUALSTACK_ENDPOINT", "AWS_ENDPOINT_URL")
# Services without a documented dual-stack endpoint.
_BY_IPV4 = ("pricing",)


class Clients:
    """Creates clients when they are first used. They prefer endpoints with both IPv6 and IPv4."""

    def __init__(self, endpoint_url: str | None = None) -> None:
        self._endpoint_url = endpoint_url
        self._session = federation.session()
        self._clients: dict[tuple[str, str, bool], Any] = {}
        self._creating = threading.Lock()

    def reading(self, service: str, region: str) -> Any:
        """Return a client for calls that are safe to retry. It retries them after errors."""
        return self._client(service, region, repeats=True)

    def acting(self, service: str, region: str) -> Any:
        """Return a client that sends each call once, because EC2 reports a lack of capacity as a server error."""
        return self._client(service, region, repeats=False)

    def _client(self, service: str, region: str, repeats: bool) -> Any:
        with self._creating:  # sessions are not thread-safe
            key = (service, region, repeats)
            if key in self._clients:
                return self._clients[key]
            client = self._new(service, region, repeats, self._dual_stack(service))
            # With a proxy, names are resolved by the proxy.
            if self._endpoint_url or "https" in getproxies() or _has_address(client):
                self._clients[key] = client
                return client
            # About a third of the regions have no dual-stack endpoint for EC2.
            plain = self._new(service, region, repeats, dual_stack=False)
            if _has_address(plain):
                self._clients[key] = plain
                return plain
            return client  # name resolution fails at the moment

    def _dual_stack(self, service: str) -> bool | None:
        if service in _BY_IPV4:
            return False
        is_configured = self._endpoint_url or any(name.startswith(_CHOOSING) for name in os.environ)
        return None if is_configured else True

    def _new(self, service: str, region: str, repeats: bool, dual_stack: bool | None) -> Any:
        config = Config(
            connect_timeout=5,
            read_timeout=30,
            retries={"mode": "standard", "total_max_attempts": 3 if repeats else 1},
            use_dualstack_endpoint=dual_stack,
        )
        return self._session.client(
            service, region_name=region, endpoint_url=self._endpoint_url, config=config
        )


def _has_address(client: Any) -> bool:
    host = urlsplit(client.meta.endpoint_url).hostname
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False
