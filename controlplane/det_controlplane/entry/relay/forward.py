"""Traffic to tasks, where another process is the relay: it is passed on, so that clients know one address."""

import asyncio
import logging
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from det_controlplane.adapters.relay_streams import StreamReset
from det_controlplane.api.app import App
from det_controlplane.api.http import Request
from det_controlplane.core.relay_frames import Cause
from det_controlplane.entry.relay import headers as h
from det_controlplane.entry.relay.agents import PATIENCE_S
from det_controlplane.entry.relay.hangups import run_until_hangup
from det_controlplane.entry.relay.http import ClientGone, HttpExchange, refuse_tunnels
from det_controlplane.entry.relay.relay import PREFIX, refuse
from det_controlplane.entry.relay.sockets import SocketBridge
from det_controlplane.entry.server.limits import OpenStreams, of_token_or_address
from det_controlplane.services.errors import Unreachable

_CONNECT_S = 20.0
_READ = 64 * 1024

log = logging.getLogger("det.relay")


class Forward:
    """The part of an ASGI application that forwards requests for tasks to the relay. The relay checks the rights."""

    def __init__(self, app: App, relay_url: str, open_streams: OpenStreams) -> None:
        self._app, self._open = app, open_streams
        parts = urlsplit(relay_url)
        self._netloc, self._host = parts.netloc, parts.hostname or ""
        secure = parts.scheme == "https"
        self._port = parts.port or (443 if secure else 80)
        self._tls = ssl.create_default_context() if secure else None

    def takes(self, scope: Any) -> bool:
        return scope["type"] in ("http", "websocket") and scope["path"].startswith(PREFIX)

    async def __call__(self, scope: Any, request: Request, receive: Any, send: Any) -> None:
        try:
            refuse_tunnels(scope)
            # Only the relay can check the token and find its user.
            with self._open.held(of_token_or_address(request)):
                await self._pass_on(scope, receive, send)
        except ClientGone:
            # uvicorn closes the connection; this is the only sign of an incomplete answer.
            log.debug("an answer to %s broke off", scope["path"])
        except Exception as e:
            await refuse(scope, receive, send, self._app.failed(request, e))

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        stream = await self._connected()
        try:
            carrying = self._carry(scope, stream, receive, send)
            await run_until_hangup(scope, lambda: stream.sent, carrying)
        except ClientGone:
            stream.drop()
            raise
        finally:
            await stream.reset(Cause.CANCELLED, "the request is over")

    async def _connected(self) -> "_Connection":
        opening = asyncio.open_connection(self._host, self._port, ssl=self._tls)
        try:
            reader, writer = await asyncio.wait_for(opening, _CONNECT_S)
        except (OSError, asyncio.TimeoutError) as e:
            raise Unreachable(f"the relay at {self._netloc} cannot be reached: {e}") from e
        return _Connection(reader, writer)

    async def _carry(self, scope: Any, stream: "_Connection", receive: Any, send: Any) -> None:
        headers = h.towards_relay(scope["headers"], self._netloc, scope["scheme"])
        path: bytes = scope["raw_path"]
        query: bytes = scope["query_string"]
        address = path + b"?" + query if query else path
        if scope["type"] == "websocket":
            bridge = SocketBridge(stream, h.from_relay, receive, send)
            subprotocols: list[str] = scope["subprotocols"]
            await bridge.run(self._netloc, address.decode("latin-1"), subprotocols, headers, [])
            return
        headers.append((b"connection", b"close"))
        if any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"]):
            headers.append((b"transfer-encoding", b"chunked"))
        exchange = HttpExchange(stream, h.from_relay, receive, send)
        await exchange.run(scope["method"].encode(), address, headers, [])


class _Connection:
    """A connection to the relay, of one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._over = False
        self.sent = 0
        # A relay sends no reset if its machine vanished.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    async def read(self) -> bytes:
        """Return the next bytes; none at the end. Raises StreamReset."""
        try:
            return await self._reader.read(_READ)
        except OSError as e:
            raise StreamReset(Cause.BROKEN, f"the relay is gone: {e}") from e

    async def write(self, content: bytes) -> None:
        """Send bytes, as fast as the relay uses them. Raises StreamReset."""
        if self._over:
            raise StreamReset(Cause.BROKEN, "the connection is closed")
        try:
            self._writer.write(content)
            await asyncio.wait_for(self._writer.drain(), PATIENCE_S)
            self.sent += len(content)
        except asyncio.TimeoutError:
            raise StreamReset(Cause.BROKEN, f"the relay read nothing for {PATIENCE_S} s") from None
        except OSError as e:
            raise StreamReset(Cause.BROKEN, f"the relay is gone: {e}") from e

    async def end(self) -> None:
        """Do nothing: TLS cannot close one direction of a connection, and requests carry their length."""

    def drop(self) -> None:
        """Close the connection at once and drop unsent data."""
        self._over = True
        self._writer.transport.abort()

    async def reset(self, cause: Cause, message: str) -> None:
        """Close both directions. Written data is still sent if the relay reads it."""
        if not self._over:
            self._over = True
            transport = self._writer.transport
            transport.close()
            if transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(PATIENCE_S, transport.abort)
