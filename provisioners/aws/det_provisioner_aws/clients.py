"""Clients of AWS's services, one for each service and region."""

import os
import socket
import threading
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from botocore.config import Config

from det_provisioner_aws import federation

# Variables by which an operator chooses endpoints: in networks without IPv6, in regions that lack some, in tests.
_CHOOSING = ("AWS_USE_DUALSTACK_ENDPOINT", "AWS_ENDPOINT_URL")
# Services that AWS documents no dual-stack endpoint of.
_BY_IPV4 = ("pricing",)


class Clients:
    """Makes clients when they are first used. They reach AWS by IPv6 and IPv4 where it has both."""

    def __init__(self, endpoint_url: str | None = None) -> None:
        self._endpoint_url = endpoint_url
        self._session = federation.session()
        self._made: dict[tuple[str, str, bool], Any] = {}
        self._making = threading.Lock()

    def reading(self, service: str, region: str) -> Any:
        """Return a client whose calls may be repeated, and are when AWS stumbles."""
        return self._client(service, region, repeats=True)

    def acting(self, service: str, region: str) -> Any:
        """Return a client that sends a call once: lack of capacity is answered as if the server had failed."""
        return self._client(service, region, repeats=False)

    def _client(self, service: str, region: str, repeats: bool) -> Any:
        with self._making:  # a session is not for several threads
            key = (service, region, repeats)
            if key in self._made:
                return self._made[key]
            made = self._new(service, region, repeats, self._dual_stack(service))
            # A proxy resolves names itself.
            if self._endpoint_url or "https" in getproxies() or _has_address(made):
                self._made[key] = made
                return made
            # EC2 has no dual-stack endpoint in a good third of the regions.
            plain = self._new(service, region, repeats, dual_stack=False)
            if _has_address(plain):
                self._made[key] = plain
                return plain
            return made  # names are not resolved at the moment

    def _dual_stack(self, service: str) -> bool | None:
        if service in _BY_IPV4:
            return False
        chosen = self._endpoint_url or any(name.startswith(_CHOOSING) for name in os.environ)
        return None if chosen else True

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
