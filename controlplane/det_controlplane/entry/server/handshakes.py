"""Serve HTTPS. Connections count from the time of their acceptance, and slow handshakes are ended.

The event loop's own server reports a connection after its handshake, so handshakes would not be limited.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ssl import SSLContext
from typing import Any

import uvicorn

from det_controlplane.entry.server.protocol import LimitedHttpProtocol

HANDSHAKE_S = 10.0
_NO_FILES_S = 0.1  # until accepting is tried again


class Handshakes:
    """Accepts connections as long as the server has room for them, and hands them on with TLS."""

    def __init__(self, tls: SSLContext, make: Callable[[], LimitedHttpProtocol]) -> None:
        self._tls, self._make = tls, make
        self._shaking: set[asyncio.Task[None]] = set()

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until this task is cancelled. Cancelling ends unfinished handshakes."""
        listening.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, peer = await loop.sock_accept(listening)
                except OSError:
                    await asyncio.sleep(_NO_FILES_S)
                    continue
                self._begin(connection, peer)
                # Accepting does not wait while there are connections, and others have to be served.
                await asyncio.sleep(0)
        finally:
            for task in self._shaking:
                task.cancel()

    def _begin(self, connection: socket.socket, peer: object) -> None:
        protocol = self._make()
        if not protocol.has_room(connection, peer, len(self._shaking)):
            protocol.addresses.release(connection)
            connection.close()
            return
        task = asyncio.create_task(self._shake(connection, protocol))
        self._shaking.add(task)
        task.add_done_callback(self._shaking.discard)
        # Also where the task is cancelled before its first step.
        task.add_done_callback(lambda _: protocol.addresses.release(connection))

    async def _shake(self, connection: socket.socket, protocol: LimitedHttpProtocol) -> None:
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_S
            )


class Server(uvicorn.Server):
    """uvicorn's server that notifies the application at once when it ends. Some requests are held for minutes."""

    def __init__(self, config: uvicorn.Config, ends: Callable[[], None]) -> None:
        super().__init__(config)
        self._ends = ends

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ends()
        await super().shutdown(sockets)


class HttpsServer(Server):
    """A server that leaves accepting to this module."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        protocol: Any = self.config.http_protocol_class
        state, tls = self.lifespan.state, self.config.ssl
        assert tls is not None
        make_protocol = partial(protocol, self.config, self.server_state, state)
        shaking = Handshakes(tls, make_protocol)
        self._accepting = [asyncio.create_task(shaking.accept(s)) for s in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)
