"""HTTP connections that end when a client takes too long to say what it wants, and websockets that keep secrets."""

import asyncio
import logging
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEADERS_S = 30.0
_MOST_CONNECTIONS, _FEWEST = 4096, 64
_OTHER_FILES = 128  # database connections, logs, objects


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose patience with the headers of a request has an end."""

    _ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        if self._ends is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_headers()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        self._ends = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None


class QuietWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which would log each address with its query, where tokens may be."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.logger = _websockets_log


_websockets_log = logging.getLogger("det.websockets")
_websockets_log.setLevel(logging.WARNING)


def most_connections() -> int:
    """Return how many connections are taken: what this process may open, less what else it needs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - _OTHER_FILES
    return max(_FEWEST, min(_MOST_CONNECTIONS, open_files))
