"""Carry an HTTP request to a task: streamed both ways, through a stream of the agent's link."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

import h11

from det_controlplane.adapters.relay_streams import StreamReset
from det_controlplane.api.errors import MethodNotAllowed
from det_controlplane.core.relay_frames import Cause
from det_controlplane.entry.relay.headers import Headers
from det_controlplane.services.errors import Unreachable

_MOST_HEADERS = 256 * 1024
_STATUSES = range(200, 600)  # of final answers (RFC 9110, section 15)
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"


# A function that converts the headers of an answer.
Answered = Callable[[Iterable[tuple[bytes, bytes]]], Headers]


class Stream(Protocol):
    """Carries bytes to a task or another relay, and back."""

    async def read(self) -> bytes: ...
    async def write(self, content: bytes) -> None: ...
    async def end(self) -> None: ...
    async def reset(self, cause: Cause, message: str) -> None: ...


class ClientGone(Exception):
    """The client went away, or its answer cannot be completed."""


def refuse_tunnels(scope: Any) -> None:
    """Refuse CONNECT: it asks for a connection to another place, which a task must not be used for."""
    if scope["type"] == "http" and scope["method"] == "CONNECT":
        raise MethodNotAllowed(f"{scope['path']} does not take CONNECT, only {_METHODS}", _METHODS)


class HttpExchange:
    def __init__(self, stream: Stream, answered: Answered, receive: Any, send: Any) -> None:
        self._stream, self._answered = stream, answered
        self._receive, self._send = receive, send
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEADERS)
        self._begun = False

    async def run(self, method: bytes, target: bytes, headers: Headers, more: Headers) -> None:
        """Carry the request and its answer. Raises Unreachable before the answer began, ClientGone after."""
        try:
            request = h11.Request(method=method, target=target, headers=headers)
            first = self._connection.send(request)
        except h11.LocalProtocolError as e:
            raise Unreachable(f"the request cannot be passed on to the task: {e}") from e
        sending = asyncio.create_task(self._send_body(first or b""))
        answering = asyncio.create_task(self._answer(more))
        try:
            await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and sending.exception() is not None:
                # The task may have answered before it read everything, and closed.
                if isinstance(sending.exception(), ClientGone):
                    raise ClientGone
                await self._answered_or_gone(answering)
            await answering
        except (StreamReset, h11.RemoteProtocolError) as e:
            if self._begun:
                raise ClientGone from e
            raise Unreachable(f"the task did not answer: {e}") from e
        finally:
            for task in (sending, answering):
                task.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)
            await self._stream.reset(Cause.CANCELLED, "the request is over")

    async def _send_body(self, head: bytes) -> None:
        """Send the request's body as it comes, then notice when the client goes away."""
        await self._stream.write(head)
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            more = message.get("more_body", False)
            content = message.get("body", b"")
            if content:
                await self._write(h11.Data(data=content))
        await self._write(h11.EndOfMessage())
        await self._leaves()
        raise ClientGone

    async def _answered_or_gone(self, answering: asyncio.Task[None]) -> None:
        """Wait for an answer that needs no more of the request. Raises ClientGone."""
        leaving = asyncio.create_task(self._leaves())
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        if not answering.done():
            raise ClientGone

    async def _leaves(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _write(self, event: Any) -> None:
        try:
            wire = self._connection.send(event)
        except h11.LocalProtocolError as e:
            # Less or more than its Content-Length says, or the answer came and closed before.
            raise StreamReset(Cause.BROKEN, str(e)) from e
        if wire:
            await self._stream.write(wire)

    async def _answer(self, more: Headers) -> None:
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                self._connection.receive_data(await self._stream.read())
            elif isinstance(event, h11.Response):
                if event.status_code not in _STATUSES:
                    raise Unreachable(
                        f"the task answered with status {event.status_code}, which HTTP does not have:"
                        " its server must answer with a status from 200 to 599"
                    )
                headers = [*self._answered(event.headers.raw_items()), *more]
                start = {"type": "http.response.start", "status": event.status_code}
                self._begun = True
                await self._send({**start, "headers": headers})
            elif isinstance(event, h11.Data):
                part = {"type": "http.response.body", "body": bytes(event.data), "more_body": True}
                with suppress(OSError):
                    await self._send(part)
            elif isinstance(event, h11.EndOfMessage):
                await self._send({"type": "http.response.body", "body": b""})
                return
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                raise StreamReset(Cause.BROKEN, "it closed the connection")
