"""Post messages over HTTP. By default, only public addresses are allowed.

The connection uses the address that was checked, so DNS cannot redirect it afterwards. HTTP redirects are not
followed."""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from det_controlplane.ports.courier import Unsent

TIMEOUT_S = 10.0  # for a whole exchange
_MOST_ADDRESSES = 3
_NAT64 = IPv6Network("64:ff9b::/96")
# Statuses of servers that may accept the message later.
_LATER = frozenset({408, 425, 429})


class WebCourier:
    """A `Courier` for HTTP and HTTPS."""

    def __init__(self, *, allow_private: bool = False, timeout_s: float = TIMEOUT_S) -> None:
        self._allow_private = allow_private
        self._timeout_s = timeout_s

    def check(self, url: str) -> None:
        parts = urlsplit(url)
        self._addresses(parts.hostname or "", parts.port or 443)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        addresses = self._addresses(host, port)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = _Pinned(host, port, addresses, self._timeout_s, secure=secure)
        # Each read restarts the socket's timeout. Without a deadline, a slow target could block this thread for days.
        deadline = threading.Timer(self._timeout_s, connection.cut)
        deadline.daemon = True
        deadline.start()
        try:
            connection.request(
                "POST", path, body, {"User-Agent": "determined-serverless", **headers}
            )
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as e:
            cause = getattr(e, "strerror", None) or str(e) or type(e).__name__
            raise Unsent(f"{host} does not answer: {cause}") from e
        finally:
            deadline.cancel()
            connection.close()
        if not 200 <= status < 300:
            forever = 300 <= status < 500 and status not in _LATER
            raise Unsent(f"{host} answered with status {status}", forever=forever)

    def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host. Raises Unsent if it has none, or one that is not public."""
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as e:
            raise Unsent(f"cannot resolve {host}") from e
        addresses = [str(entry[4][0]) for entry in entries]
        if not self._allow_private and not all(map(_is_public, addresses)):
            raise Unsent(
                f"{host} is an address of a private network; an operator may allow these with"
                " webhooks.allow_private_targets",
                forever=True,
            )
        return addresses


def _is_public(address: str) -> bool:
    ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is not None:
            ip = inner
        elif ip in _NAT64:
            ip = IPv4Address(int(ip) & 0xFFFFFFFF)
    # Reserved ranges contain translations of private addresses, which a network may route.
    is_site_local = isinstance(ip, IPv6Address) and ip.is_site_local
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or is_site_local)


class _Pinned(http.client.HTTPConnection):
    """A connection to the checked addresses of a host, with TLS if `secure` is set."""

    def __init__(
        self, host: str, port: int, addresses: list[str], timeout_s: float, *, secure: bool
    ) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._addresses = addresses[:_MOST_ADDRESSES]
        self._secure = secure
        self._raw: socket.socket | None = None

    def connect(self) -> None:
        failure: OSError | None = None
        for address in self._addresses:
            try:
                self.sock = self._raw = socket.create_connection((address, self.port), self.timeout)
                break
            except OSError as e:
                failure = e
        else:
            raise failure or OSError("no address")
        if self._secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        """Abort the exchange."""
        sock = self.sock or self._raw
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
