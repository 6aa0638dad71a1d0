"""Passes a container's request on to the control plane, and waits out an outage instead of failing."""

import http.client
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO
from urllib.parse import urlsplit

RETRY_STATUSES = frozenset({502, 503, 504})
FIRST_BACKOFF_S = 0.2
LONGEST_BACKOFF_S = 5.0
ANSWER_TIMEOUT_S = 300.0
IDLE_CONNECTION_S = 10.0
HOP_BY_HOP = frozenset(
    {
        "connection",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class CallerGone(Exception):
    """The container closed its connection (or died): nobody waits for the answer any more."""


@dataclass(frozen=True)
class Tls:
    cert_file: str | None = None
    verify: bool = True


@dataclass(frozen=True)
class ForwardedRequest:
    method: str
    target: str
    headers: Mapping[str, str]
    body: IO[bytes]
    length: int
    retried: bool = True
    longest_backoff_s: float = LONGEST_BACKOFF_S


class Upstream:
    """Connections to the control plane, reused while fresh, so a quiet trial holds none."""

    def __init__(self, base_url: str, tls: Tls = Tls()) -> None:
        parts = urlsplit(base_url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls = tls
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []

    def send(
        self, request: ForwardedRequest, caller: socket.socket
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send until there is an answer worth passing on. Raises CallerGone."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            connection = self._take()
            try:
                response = self._send_once(connection, request)
                if response.status not in RETRY_STATUSES or not request.retried:
                    return connection, response
            except (OSError, http.client.HTTPException):
                if not request.retried:
                    connection.close()
                    raise
            connection.close()
            _wait_unless_gone(caller, backoff_s * random.uniform(0.7, 1.0))
            backoff_s = min(backoff_s * 2, request.longest_backoff_s)

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection whose answer was read to its end."""
        now = time.monotonic()
        with self._lock:
            stale = [c for since, c in self._idle if now - since > IDLE_CONNECTION_S]
            self._idle = [(t, c) for t, c in self._idle if now - t <= IDLE_CONNECTION_S]
            self._idle.append((now, connection))
        for old in stale:
            old.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        now = time.monotonic()
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if now - since <= IDLE_CONNECTION_S and not _closed_by_peer(connection):
                    return connection
                connection.close()
        return self._connect()

    def _send_once(
        self, connection: http.client.HTTPConnection, request: ForwardedRequest
    ) -> http.client.HTTPResponse:
        request.body.seek(0)
        connection.putrequest(
            request.method,
            self._prefix + request.target,
            skip_host=False,
            skip_accept_encoding=True,
        )
        for name, value in request.headers.items():
            if name.lower() not in HOP_BY_HOP and name.lower() != "content-length":
                connection.putheader(name, value)
        if request.length or request.method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(request.length))
        connection.endheaders()
        while block := request.body.read(256 * 1024):
            connection.send(block)
        return connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_TIMEOUT_S)
        context = ssl.create_default_context(cafile=self._tls.cert_file)
        if not self._tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=ANSWER_TIMEOUT_S, context=context
        )


def _closed_by_peer(connection: http.client.HTTPConnection) -> bool:
    return connection.sock is None or _readable(connection.sock, 0)


def _wait_unless_gone(caller: socket.socket, wait_s: float) -> None:
    """Sleep, but notice at once that the caller hung up."""
    deadline = time.monotonic() + wait_s
    if not _readable(caller, wait_s):
        return
    try:
        if caller.recv(1, socket.MSG_PEEK) == b"":
            raise CallerGone
    except OSError as e:
        raise CallerGone from e
    time.sleep(max(0.0, deadline - time.monotonic()))


def _readable(sock: socket.socket, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poller.poll(timeout_s * 1000))
