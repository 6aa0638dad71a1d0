"""Websockets to tasks: websockets that a task serves, and websockets that carry a TCP connection."""

import asyncio
from contextlib import suppress
from typing import Any

from websockets.client import ClientProtocol
from websockets.datastructures import Headers as SocketHeaders
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from det_controlplane.adapters.relay_streams import StreamReset
from det_controlplane.core.relay_frames import Cause
from det_controlplane.entry.relay.headers import Headers
from det_controlplane.entry.relay.http import Answered, ClientGone, Stream
from det_controlplane.services.errors import Unreachable

# A client that offers this protocol ends its direction with an empty message, and receives one at the other end.
TCP_SUBPROTOCOL = "tcp.determined"
HANDSHAKE_S = 60.0
# Outputs of notebooks fit. So much is held of each message that is not complete.
MAX_MESSAGE = 16 * 1024 * 1024
_LONGEST_REASON = 123  # bytes of a closing frame
_HANDSHAKE = ("sec-websocket-", "host", "origin", "connection", "upgrade")


async def accept(send: Any, **answer: Any) -> None:
    """Take a websocket. Raises ClientGone where its client went away before."""
    try:
        await send({"type": "websocket.accept", **answer})
    except OSError as e:
        raise ClientGone from e


async def carry_tcp(stream: Stream, offered: list[str], receive: Any, send: Any) -> None:
    """Carry the bytes of binary messages to a port of the task, and its bytes back."""
    halves = TCP_SUBPROTOCOL in offered
    await receive()
    await accept(send, subprotocol=TCP_SUBPROTOCOL if halves else None)
    half_close = asyncio.Event()
    client = asyncio.create_task(_bytes_to_task(stream, receive, half_close if halves else None))
    task = asyncio.create_task(_bytes_from_task(stream, send, halves=halves))
    over = asyncio.create_task(half_close.wait())
    try:
        await asyncio.wait({client, task}, return_when=asyncio.FIRST_COMPLETED)
        if halves and task.done() and task.exception() is None:
            # Without half-closes the end of the task's side is the end of both.
            await asyncio.wait({client, over}, return_when=asyncio.FIRST_COMPLETED)
        broken = any(t.done() and t.exception() is not None for t in (client, task))
    finally:
        for running in (client, task, over):
            running.cancel()
        await asyncio.gather(client, task, over, return_exceptions=True)
        await stream.reset(Cause.CANCELLED, "the client's connection is over")
    with suppress(OSError):
        await send({"type": "websocket.close", "code": 1011 if broken else 1000})


async def hang_up(why: str, receive: Any, send: Any) -> None:
    """Take a websocket and end it at once: the tunnels of Determined's client never end after a refusal."""
    reason = why.encode()[:_LONGEST_REASON].decode(errors="ignore")
    await receive()
    with suppress(OSError):
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 1011, "reason": reason})


async def _bytes_to_task(stream: Stream, receive: Any, half_close: asyncio.Event | None) -> None:
    """Pass bytes on until the client is gone; `half_close` is set when it only stops sending."""
    while (message := await receive())["type"] == "websocket.receive":
        content = message.get("bytes")
        if content is None:
            content = message["text"].encode()
        if content:
            await stream.write(content)
        elif half_close is not None:
            await stream.end()
            half_close.set()
    await stream.end()


async def _bytes_from_task(stream: Stream, send: Any, *, halves: bool) -> None:
    while part := await stream.read():
        await send({"type": "websocket.send", "bytes": part})
    if halves:
        await send({"type": "websocket.send", "bytes": b""})


class SocketBridge:
    """A websocket that the task serves, and one of the client, message by message."""

    def __init__(self, stream: Stream, answered: Answered, receive: Any, send: Any) -> None:
        self._stream, self._answered = stream, answered
        self._receive, self._send = receive, send
        self._writing = asyncio.Lock()  # pongs do not belong to a message
        self._parts: list[bytes] = []
        self._is_text = False

    async def run(
        self, host: str, target: str, offered: list[str], headers: Headers, more: Headers
    ) -> None:
        """Connect to the task, pass its answer to the client, then carry messages. Raises Unreachable."""
        protocols = [Subprotocol(p) for p in offered]
        self._task = ClientProtocol(
            parse_uri("ws://task/"), subprotocols=protocols or None, max_size=MAX_MESSAGE
        )
        request = self._task.connect()
        request.path = target
        del request.headers["Host"]
        request.headers["Host"] = host
        _add(request.headers, headers)
        self._task.send_request(request)
        try:
            await self._flush()
            answer = await asyncio.wait_for(self._shaken_hands(), HANDSHAKE_S)
        except asyncio.TimeoutError as e:
            raise Unreachable(f"the task did not answer within {HANDSHAKE_S} s") from e
        except StreamReset as e:
            raise Unreachable(f"the task did not answer: {e}") from e
        await self._receive()
        back = [*self._answered(_raw(answer.headers)), *more]
        if self._task.state is not State.OPEN:
            await self._refuse(answer, back)
            return
        answer_headers = [(n, v) for n, v in back if not n.lower().startswith(b"sec-websocket-")]
        await accept(self._send, subprotocol=self._task.subprotocol, headers=answer_headers)
        await self._talk()

    async def _shaken_hands(self) -> Response:
        while True:
            for event in self._task.events_received():
                if isinstance(event, Response):
                    return event
            error = self._task.handshake_exc
            if isinstance(error, InvalidStatus):
                return error.response
            if error is not None:
                raise Unreachable(f"the task serves no websocket there: {error}")
            await self._feed()

    async def _feed(self) -> bool:
        """Pass received data to the protocol. Return False at the end of the connection."""
        content = await self._stream.read()
        if content:
            self._task.receive_data(content)
        else:
            self._task.receive_eof()
        return bool(content)

    async def _refuse(self, answer: Response, headers: Headers) -> None:
        body = answer.body or b""
        answer_headers = [(n, v) for n, v in headers if n.lower() != b"content-length"]
        start = {"type": "websocket.http.response.start", "status": answer.status_code}
        await self._send({**start, "headers": answer_headers})
        await self._send({"type": "websocket.http.response.body", "body": bytes(body)})
        await self._stream.reset(Cause.CANCELLED, "it was refused")

    async def _talk(self) -> None:
        inward = asyncio.create_task(self._to_task())
        outward = asyncio.create_task(self._from_task())
        try:
            await asyncio.wait({inward, outward}, return_when=asyncio.FIRST_COMPLETED)
            if not outward.done() and inward.exception() is None:
                # The client said goodbye: the task may answer it.
                await asyncio.wait({outward}, timeout=1.0)
        finally:
            for task in (inward, outward):
                task.cancel()
            await asyncio.gather(inward, outward, return_exceptions=True)
            await self._stream.reset(Cause.CANCELLED, "the websocket is over")
        close_frame = self._task.close_rcvd
        with suppress(OSError):
            code = close_frame.code if close_frame is not None else 1001
            reason = close_frame.reason if close_frame is not None else ""
            code = code if code not in (1005, 1006) else 1000
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _to_task(self) -> None:
        while (message := await self._receive())["type"] == "websocket.receive":
            if message.get("bytes") is not None:
                self._task.send_binary(message["bytes"])
            else:
                self._task.send_text(message["text"].encode())
            await self._flush()
        if self._task.state is State.OPEN:
            code = message.get("code", 1000)
            self._task.send_close(code if code not in (1005, 1006, 1015) else 1000)
            await self._flush()

    async def _from_task(self) -> None:
        with suppress(StreamReset, WebSocketException):
            while await self._deliver() and await self._feed():
                # Pings are answered by the protocol itself.
                await self._flush()
            await self._deliver()

    async def _deliver(self) -> bool:
        """Pass on the messages that are complete; False once the task said goodbye."""
        for event in self._task.events_received():
            if not isinstance(event, Frame):
                continue
            if event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                await self._part(event)
            elif event.opcode is Opcode.CLOSE:
                await self._flush()
                return False
        return True

    async def _part(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        if frame.data:
            self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        content = {"text": whole.decode()} if self._is_text else {"bytes": whole}
        await self._send({"type": "websocket.send", **content})

    async def _flush(self) -> None:
        async with self._writing:
            for wire in self._task.data_to_send():
                if wire:
                    await self._stream.write(wire)
                else:
                    await self._stream.end()


def _add(request: SocketHeaders, headers: Headers) -> None:
    """Add the client's headers except those of the handshake, which this process sends itself."""
    for name, value in headers:
        low = name.decode("latin-1").lower()
        if low == "origin" or not low.startswith(_HANDSHAKE):
            request[name.decode("latin-1")] = value.decode("latin-1")


def _raw(headers: SocketHeaders) -> Headers:
    return [(n.encode("latin-1"), v.encode("latin-1")) for n, v in headers.raw_items()]
