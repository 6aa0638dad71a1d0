"""HTTP connections that no client keeps for ever, nor fills without end; websockets that keep secrets."""

import asyncio
import logging
import resource
import select
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from det_controlplane.api.errors import TooMany
from det_controlplane.entry.relay.hangups import EXTENSION
from det_controlplane.entry.server.limits import OpenConnections

HEADERS_S = 30.0
LARGEST_HEADERS = 65_536  # including the address, and the framing and trailers of a body
LINGER_S = 2.0
_GONE = select.POLLERR | select.POLLHUP | getattr(select, "POLLRDHUP", 0)
# Clients skip it before the answer (RFC 9110, section 15.2). A disconnected client resets the connection.
_POKE = b"HTTP/1.1 100 Continue\r\n\r\n"
_MOST_CONNECTIONS, _FEWEST = 4096, 64
_OTHER_FILES = 128  # database connections, logs, objects
# So many connections above the limit get a refusal. Further connections are closed without an answer.
_REFUSED_AT_ONCE = 32


class HttpClient:
    """The client of a connection. `may_poke` says whether it waits for an answer that has not begun."""

    def __init__(self, transport: Any, may_poke: Callable[[], bool]) -> None:
        self._transport, self._may_poke = transport, may_poke

    def is_gone(self) -> bool:
        """Ask the system whether the client has left, which works without reading from the connection."""
        if self._transport.is_closing():
            return True
        poller = select.poll()
        poller.register(self._transport.get_extra_info("socket").fileno(), _GONE)
        return bool(poller.poll(0))

    def poke(self) -> None:
        if self._may_poke():
            self._transport.write(_POKE)

    def drop(self) -> None:
        self._transport.abort()


class LimitedHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits for the time and size of request headers.

    The parser reports a header when it is complete, so incoming bytes are counted as well."""

    addresses = OpenConnections(0)
    _ends: asyncio.TimerHandle | None = None
    _held = 0  # bytes since the parser reported complete headers or a complete body
    _reported = 0  # bytes of the address and headers that the parser has reported
    _refused = False
    _is_too_many = False  # connections of its address
    _before_tls: socket.socket | None = None

    def has_room(self, connection: socket.socket, peer: Any, shaking: int) -> bool:
        """Count a connection that begins its TLS handshake. Return False if it must be closed."""
        self._before_tls = connection
        return self._take(connection, peer, len(self.connections) + shaking + 1)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._client = HttpClient(transport, self._waits_unread)
        self.addresses.release(self._before_tls)
        peer = transport.get_extra_info("peername")
        if not self._take(transport, peer, len(self.connections)):
            transport.abort()
            return
        self._wait_for_headers()

    def _take(self, connection: Any, peer: Any, count: int) -> bool:
        """Count a connection for its address. Return whether it gets an answer, which may be a refusal."""
        most, too_many = self.limit_concurrency, self.addresses.take(connection, peer)
        self._is_too_many = too_many > 0
        all_too_many = most is not None and count > most + _REFUSED_AT_ONCE
        return not all_too_many and too_many <= _REFUSED_AT_ONCE

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._is_too_many:
            self._refuse(_TOO_MANY)
            return
        if self._ends is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_headers()
        self._held += len(data)
        super().data_received(data)
        if self._held > LARGEST_HEADERS:
            self._refuse()

    def send_400_response(self, msg: str) -> None:
        if self._reported > LARGEST_HEADERS:
            self._refuse()
        else:
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        self._reported = 0
        super().on_message_begin()
        scope: Any = self.scope
        scope["extensions"] = {EXTENSION: self._client}

    def on_url(self, url: bytes) -> None:
        self._tell(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._tell(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._held = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.addresses.release(self.transport)
        super().connection_lost(exc)

    def _waits_unread(self) -> bool:
        reads_over = self.scope["http_version"] == "1.1"
        is_begun = self.cycle is None or self.cycle.response_started
        return reads_over and self.flow.read_paused and not is_begun

    def _tell(self, size: int) -> None:
        self._reported += size
        if self._reported > LARGEST_HEADERS:
            raise ValueError("the headers are too large")  # which ends the parser

    def _refuse(self, answer: bytes = b"") -> None:
        """Say so unless an answer is on its way; read on for a moment, or the client would see a reset instead."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._stop_waiting()
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(answer or _TOO_LARGE)
        self._ends = self.loop.call_later(LINGER_S, self.transport.close)

    def _wait_for_headers(self) -> None:
        self._ends = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None


_SAYS = b"the headers of a request must not be larger than 64 KiB\n"
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n\r\n%s" % (len(_SAYS), _SAYS)
)
_WHY = TooMany(
    "your address has too many connections open here: close some; an administrator may set another limit by"
    " security.max_connections_per_address, or 0 where all come by one proxy"
)
_TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\nretry-after: %d\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    % (_WHY.retry_after_s, len(_WHY.to_json()), _WHY.to_json())
)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which would log each address with its query, where tokens may be."""

    addresses = OpenConnections(0)

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.logger = _websockets_log

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        # Refused connections have no scope. Pings reveal disconnected clients.
        if self.handshake_initiated and not self.handshake_complete:
            scope: Any = self.scope
            scope["extensions"][EXTENSION] = HttpClient(self.transport, lambda: False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.addresses.release(self.transport)
        super().connection_lost(exc)


_websockets_log = logging.getLogger("det.websockets")
_websockets_log.setLevel(logging.WARNING)


def protocols(most_of_address: int) -> tuple[type[LimitedHttpProtocol], type[WebSocketProtocol]]:
    """Return the protocols of one server, which count connections together; 0: an address may have any number.

    However many it may have, it leaves half of the server's to others."""
    addresses = OpenConnections(min(most_of_address, most_connections() // 2))
    shared = {"addresses": addresses}
    return (
        type("HttpProtocol", (LimitedHttpProtocol,), shared),
        type("SocketProtocol", (WebSocketProtocol,), shared),
    )


def most_connections() -> int:
    """Return the limit of connections: the open files of this process minus those for other purposes."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - _OTHER_FILES
    return max(_FEWEST, min(_MOST_CONNECTIONS, open_files))
