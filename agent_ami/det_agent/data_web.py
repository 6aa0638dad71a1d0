"""HTTP requests for data sets. Addresses that only this machine may use are refused, because users choose them."""

import contextlib
import http.client
import ipaddress
import ssl
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import urljoin, urlsplit

from determined.common.connections import Connections

from det_agent.data_objects import DataRefused

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 20.0, 60.0
MOST_REDIRECTS = 5
_METADATA_V6 = ipaddress.ip_network("fd00:ec2::/32")  # EC2's metadata service
_REDIRECTS = (301, 302, 303, 307, 308)


class _OutsideConnections(Connections):
    """Connections to other machines. The address is checked after the name was resolved."""

    may_use_loopback = False

    def _connect(self, timeout_s: float | None) -> http.client.HTTPConnection:
        connection = super()._connect(CONNECT_TIMEOUT_S)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as e:
            raise DataRefused(f"the certificate of {self.address} is not valid: {e}") from e
        try:
            self._check(str(connection.sock.getpeername()[0]))
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(timeout_s)
        return connection

    def _check(self, address: str) -> None:
        ip = ipaddress.ip_address(address.partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if ip.is_link_local or ip in _METADATA_V6:
            raise DataRefused(
                f"{self.address} has the link-local or metadata address {ip}, which data sets may not use:"
                " name another server"
            )
        if ip.is_loopback and not self.may_use_loopback:
            raise DataRefused(
                f"{self.address} is an address of the agent's own machine ({ip}), which data sets of containers may"
                " not use: name the server by its network address"
            )


class Web:
    """Sends requests to any server, over connections that threads share.

    Tasks in containers cannot reach the machine's loopback, so their data sets may not either. Processes can."""

    def __init__(self, *, may_use_loopback: bool) -> None:
        self._may_use_loopback = may_use_loopback
        self._lock = threading.Lock()
        self._servers: dict[str, Connections] = {}

    @contextlib.contextmanager
    def request(
        self, method: str, url: str, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and yield its response. Redirects are followed. Raises OSError, HTTPException, DataRefused."""
        for _ in range(MOST_REDIRECTS + 1):
            parts = urlsplit(url)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            server = self._server(f"{parts.scheme}://{parts.netloc}")
            with server.exchange(
                method, target, headers, timeout_s=READ_TIMEOUT_S, read_timeout_s=READ_TIMEOUT_S
            ) as response:
                if response.status not in _REDIRECTS or not response.getheader("Location"):
                    yield response
                    return
                response.read(64 * 1024)
                old, url = url, urljoin(url, str(response.getheader("Location")))
            new = urlsplit(url)
            if new.scheme not in ("http", "https") or not new.hostname:
                raise DataRefused(f"{old} redirects to {url[:200]!r}, which is no web address")
            if new.netloc != parts.netloc:
                headers = {k: v for k, v in headers.items() if k.lower() != "authorization"}
        raise DataRefused(f"{url} redirects more than {MOST_REDIRECTS} times")

    def close(self) -> None:
        with self._lock:
            servers, self._servers = self._servers, {}
        for server in servers.values():
            server.close()

    def _server(self, base: str) -> Connections:
        with self._lock:
            server = self._servers.get(base)
            if server is None:
                server = self._servers[base] = _OutsideConnections(base)
                server.may_use_loopback = self._may_use_loopback
            return server
