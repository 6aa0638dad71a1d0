"""Send a stream of the API over a websocket. The client's message is the body, and each line becomes a message.

Another message of the client starts the stream again with another body.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.api.errors import PermissionDenied
from det_controlplane.api.http import STRANGERS_BODY, Request, Response, Stream
from det_controlplane.entry.server.answers import next_batch

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
InTurn = Callable[..., Awaitable[Any]]  # of the request's caller

PATH = "/stream"
_PAUSE_S = 1.0
_REFUSED, _TOO_BIG = 1008, 1009  # RFC 6455's codes


def refusal(app: App, request: Request) -> Response | None:
    """Return why no connection is made: an unknown caller, or a page from elsewhere with the cookie of a user."""
    origin = request.headers.get("origin", "")
    if origin and urlsplit(origin).netloc != request.headers.get("host", ""):
        why = PermissionDenied(f"pages of {origin[:200]} may not connect")
        return Response(why.to_json(), why.status)
    admitted = app.admit(request)
    return admitted if isinstance(admitted, Response) else None


class SocketStream:
    """A websocket of a client that reads a stream."""

    def __init__(
        self, app: App, notifier: LocalNotifier, in_turn: InTurn, receive: Receive, send: Send
    ) -> None:
        self._app, self._notifier, self._in_turn = app, notifier, in_turn
        self._receive, self._send = receive, send

    async def serve(self, request: Request) -> None:
        """Answer each message of the client until it leaves or is refused."""
        await self._send({"type": "websocket.accept"})
        message = await self._receive()
        while message["type"] == "websocket.receive":
            request.body = (message.get("text") or "").encode() or message.get("bytes") or b""
            coming = asyncio.ensure_future(self._receive())
            try:
                if not await self._answer(request, coming):
                    return
                message = await coming
            finally:
                coming.cancel()

    async def _answer(self, request: Request, coming: "asyncio.Future[Message]") -> bool:
        """Send the stream until the client sends a message. Return False if the connection has ended."""
        if len(request.body) > STRANGERS_BODY:
            await self._close(_TOO_BIG, "the message is too large")
            return False
        stream = await self._in_turn(request, self._app.handle, request)
        if not isinstance(stream, Stream):
            body = stream.body if isinstance(stream, Response) else b""
            await self._send({"type": "websocket.send", "text": body.decode()})
            await self._close(_REFUSED, "refused")
            return False
        cursor, is_over = stream.cursor, False
        while not is_over and not coming.done():
            wake_count = self._notifier.seen()
            batch = await self._in_turn(request, next_batch, self._app, request, stream, cursor)
            cursor, is_over = batch.cursor, batch.done
            for line in batch.lines:
                await self._send({"type": "websocket.send", "text": line.decode().rstrip("\n")})
            if not batch.lines:
                pause = asyncio.ensure_future(
                    self._notifier.wait(stream.topic, _PAUSE_S, wake_count)
                )
                either: set[asyncio.Future[Any]] = {pause, coming}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                with suppress(asyncio.CancelledError):
                    await pause
        if is_over:
            await self._close(_REFUSED, "the stream has ended")
        return not is_over

    async def _close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})
