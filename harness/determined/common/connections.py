"""Connections to one server, with TLS, reuse and retry pauses. The harness, the command line and the agent use them."""

import contextlib
import http.client
import os
import random
import selectors
import socket
import ssl
import sys
import time
from collections import deque
from typing import Any, Callable, Deque, Iterator, Mapping, Optional, Tuple
from urllib.parse import quote, urlsplit

from determined.common import certificates

# Proxies and load balancers return these while the server behind them is unavailable or overloaded.
RETRY_STATUSES = (429, 502, 503, 504)
LONGEST_ASKED_S = 60.0
IDLE_S = 10.0
_BLOCK_BYTES = 256 * 1024
# Names that users type may have spaces and umlauts, which a request line cannot contain. Only these are escaped.
_AS_GIVEN = "".join(map(chr, range(33, 127)))
# A separate generator, because drawing from the global one would change the numbers that training draws after seeding.
JITTER = random.Random()


def pauses(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield the pauses between retries. Each is twice as long as the one before, with random jitter."""
    pause_s = first_s
    while True:
        yield pause_s * JITTER.uniform(0.7, 1.0)
        pause_s = min(pause_s * 2, longest_s)


def pause_asked(retry_after: Optional[str]) -> float:
    """Return the seconds that the Retry-After header of a response asks for: at most a minute, 0 without a header."""
    try:
        return min(max(float(retry_after or 0), 0.0), LONGEST_ASKED_S)
    except ValueError:  # a date, which load balancers do not send
        return 0.0


class Connections:
    """Keep-alive connections that threads share. Idle ones close after 10 s, so a quiet program holds none."""

    def __init__(
        self,
        base_url: str,
        *,
        cert_file: Optional[str] = None,
        verify: bool = True,
        server_hostname: Optional[str] = None,
        fingerprint: Optional[str] = None,
    ) -> None:
        """Set up the connections without opening one. A `fingerprint` pins one certificate, regardless of its names."""
        parts = urlsplit(base_url)
        self._https = parts.scheme == "https"
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if self._https else 80)
        self._prefix = parts.path.rstrip("/")
        self._cert_file = cert_file
        self._verify = verify and fingerprint is None
        self._fingerprint = fingerprint
        self._server_hostname = server_hostname or self._host
        self._tls: Optional[ssl.SSLContext] = None
        # A deque needs no lock. A fork could copy a lock while it is held.
        self._idle: Deque[Tuple[float, http.client.HTTPConnection]] = deque()
        self._pid = os.getpid()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    @contextlib.contextmanager
    def exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: Any = None,
        *,
        timeout_s: Optional[float] = None,
        read_timeout_s: Optional[float] = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request once and yield its response. Raises OSError and HTTPException.

        `body` is bytes, or a file together with a Content-Length header. `timeout_s` limits each wait before the
        response begins; `read_timeout_s` limits each wait while its body is read.
        """
        connection = self._take(timeout_s)
        reusable = False
        try:
            path = quote(self._prefix + target, safe=_AS_GIVEN)
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            if connection.sock is not None:
                connection.sock.settimeout(read_timeout_s)
            yield response
            read_to_end = response.isclosed() or response.length == 0
            reusable = read_to_end and not response.will_close
            # Reading a body of known length to its end does not close the response. An open one blocks the connection.
            response.close()
        finally:
            if reusable:
                self._keep(connection)
            else:
                connection.close()

    def dial(self, timeout_s: Optional[float]) -> socket.socket:
        """Open a separate connection for another protocol and verify the server's certificate. Raises OSError."""
        connection = self._connect(timeout_s)
        connection.connect()
        sock, connection.sock = connection.sock, None
        assert sock is not None
        sock.settimeout(None)
        return sock

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop()[1].close()

    def _take(self, timeout_s: Optional[float]) -> http.client.HTTPConnection:
        if self._pid != os.getpid():
            # After a fork the parent process keeps using its connections.
            self._idle, self._pid = deque(), os.getpid()
        while self._idle:
            with contextlib.suppress(IndexError):
                since, connection = self._idle.pop()
                if time.monotonic() - since <= IDLE_S and not _closed_by_peer(connection):
                    connection.timeout = timeout_s
                    connection.sock.settimeout(timeout_s)
                    return connection
                connection.close()
        return self._connect(timeout_s)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        now = time.monotonic()
        self._idle.append((now, connection))
        with contextlib.suppress(IndexError):
            while now - self._idle[0][0] > IDLE_S:
                self._idle.popleft()[1].close()

    def _connect(self, timeout_s: Optional[float]) -> http.client.HTTPConnection:
        if not self._https:
            return _HTTPConnection(
                self._host, self._port, timeout=timeout_s, blocksize=_BLOCK_BYTES
            )
        if self._tls is None:
            self._tls = tls_context(self._cert_file, self._verify)
        return _NamedHTTPSConnection(
            self._host,
            self._port,
            timeout_s,
            self._tls,
            self._server_hostname,
            self._fingerprint,
        )


def tls_context(cert_file: Optional[str], verify: bool) -> ssl.SSLContext:
    """Return the TLS context that verifies a server's certificate."""
    context = ssl.create_default_context(cafile=cert_file)
    if cert_file is not None:
        # Trust the certificate in the file itself, not only its authority (Python 3.10 and newer).
        context.verify_flags |= getattr(ssl, "VERIFY_X509_PARTIAL_CHAIN", 0)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def readable(sock: socket.socket, timeout_s: float) -> bool:
    """Wait until the socket has data to read or its peer closed it. Return False after `timeout_s`."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(timeout_s))


def _closed_by_peer(connection: http.client.HTTPConnection) -> bool:
    return connection.sock is None or readable(connection.sock, 0)


class _HTTPConnection(http.client.HTTPConnection):
    """A connection that closes with its last reference, except while the interpreter exits.

    A daemon thread that reads at that moment never releases its response, and closing it would abort the process.
    """

    # The default argument keeps the function alive: module globals may be gone when the last objects are deleted.
    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():
            self.close()


class _NamedHTTPSConnection(_HTTPConnection, http.client.HTTPSConnection):
    """A TLS connection that verifies the certificate for `name` instead of the dialled address."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: Optional[float],
        context: ssl.SSLContext,
        name: str,
        fingerprint: Optional[str],
    ) -> None:
        http.client.HTTPSConnection.__init__(
            self, host, port, timeout=timeout_s, context=context, blocksize=_BLOCK_BYTES
        )
        self._tls = context
        self._name = name
        self._fingerprint = fingerprint

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = connected = self._tls.wrap_socket(self.sock, server_hostname=self._name)
        if self._fingerprint is not None:
            certificates.check(connected, self._fingerprint)
