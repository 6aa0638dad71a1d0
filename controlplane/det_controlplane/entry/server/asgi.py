"""The app as a plain ASGI 3 application: synchronous handlers in threads, waiting without them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote

from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.api.errors import NotFound, RequestTimeout, TooLarge, TooMany, Unavailable
from det_controlplane.api.http import (
    FORM_BODY,
    MAX_BODY,
    STRANGERS_BODY,
    Answer,
    Request,
    Response,
    Stream,
    Wait,
)
from det_controlplane.core.numerals import whole
from det_controlplane.entry.relay.forward import Forward
from det_controlplane.entry.relay.relay import Relay
from det_controlplane.entry.server import socket_stream
from det_controlplane.entry.server.answers import (
    WireAnswer,
    next_batch,
    stream_headers,
    wire_answer,
)
from det_controlplane.entry.server.bodies import (
    LEAST_BYTES_S,
    Body,
    BodyMemory,
    BodyMemoryFull,
    Disconnected,
    TooSlow,
)
from det_controlplane.entry.server.limits import CallerLimits, OpenStreams, of_token_or_address
from det_controlplane.entry.server.request_batches import RequestBatches
from det_controlplane.entry.server.request_spans import noted_request, trace_id_of
from det_controlplane.entry.server.socket_stream import SocketStream

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")
AddressOf = Callable[[str, Mapping[str, str]], str]  # of a client, from its peer and its headers

_THREADS = 16
_OF_ONE_CALLER = 12  # the threads that requests of one caller take at once, however slow they are
_STREAM_PAUSE_S = 1.0
_RETRY_AFTER_S = 5
# Large requests that threads handle at once. A parsed body takes many times its bytes.
_LARGE_AT_ONCE = 4
_BEYOND_ROOM_S = 1.0  # wait of a poll above the caller's limit
_MOST_PACKED = 1024  # largest ratio of gzip's compression


class _Client:
    """Watches whether the client is still connected, from the first wait on."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone: asyncio.Task[None] | None = None

    async def run_while_connected(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Return the result of the coroutine. Raises Disconnected as soon as the client has left."""
        if self._gone is None:
            self._gone = asyncio.create_task(self._disconnect())
        task = asyncio.create_task(waiting)
        try:
            await asyncio.wait({task, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if self._gone.done():
                raise Disconnected
            return task.result()
        finally:
            task.cancel()

    def close(self) -> None:
        if self._gone is not None:
            self._gone.cancel()

    async def _disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


@dataclass(frozen=True, slots=True)
class _Refused:
    """A request with a body that is not stored: its answer, and the bytes of the body that are still read."""

    answer: Response
    drained: int


class AsgiApp:
    """The app as ASGI. `background` is entered at start-up and left at shutdown: the loops of this process.

    `relays`: agents dial this process for traffic to tasks; if not, that is passed on to the relay, if there is one."""

    def __init__(
        self,
        app: App,
        notifier: LocalNotifier,
        background: Callable[[], AbstractContextManager[Any]] | None = None,
        *,
        max_body: int = MAX_BODY,
        room: BodyMemory | None = None,
        address_of: AddressOf | None = None,
        relays: bool = True,
    ) -> None:
        self._app = app
        self._notifier = notifier
        self._background = background
        self._max_body = max_body
        self._room = room or BodyMemory()
        self._address_of = address_of or peer_address
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="request")
        self._batches = RequestBatches(app, self._in_thread)
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._callers = CallerLimits(_OF_ONE_CALLER)
        self._open, self._waits = OpenStreams(app.ctx.config), OpenStreams(app.ctx.config)
        self._ending = False
        self._traffic: Relay | Forward | None = None
        if relays:
            self._traffic = Relay(
                app, self._in_thread, self._in_turn, self._callers.know, self._open
            )
        elif app.ctx.host.relay_url:
            self._traffic = Forward(app, app.ctx.host.relay_url, self._open)

    def end(self) -> None:
        """Answer long polls and cut streams when the server ends, so that clients continue elsewhere."""
        self._ending = True
        self._notifier.wake_all()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await self._carry(scope, receive, send)
        except asyncio.CancelledError:
            if not self._ending:
                raise

    async def _carry(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._traffic is not None and self._traffic.takes(scope):
            await self._traffic(scope, self._request(scope), receive, send)
        elif scope["type"] == "http":
            with suppress(Disconnected):
                await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _websocket(self, scope: Message, receive: Receive, send: Send) -> None:
        request = self._request({**scope, "method": "GET"})
        if request.path != socket_stream.PATH:
            why = NotFound("no websocket is served at this path")
            await refuse_websocket(receive, send, Response(why.to_json(), why.status))
            return
        refusal = await self._in_turn(request, socket_stream.refusal, self._app, request)
        if refusal is not None:
            await refuse_websocket(receive, send, refusal)
            return
        self._callers.know(request, request.sender)
        try:
            with self._open.held(request.sender):
                await receive()
                carrying = SocketStream(self._app, self._notifier, self._in_turn, receive, send)
                with suppress(OSError):
                    await carrying.serve(request)
        except TooMany as e:
            await refuse_websocket(receive, send, self._app.failed(request, e))

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        request = self._request(scope)
        request.trace_id = trace_id_of(request.headers)
        spans = self._app.ctx.spans
        if spans is None:
            await self._served(request, receive, send)
        else:
            with noted_request(spans, request, send) as noted_send:
                await self._served(request, receive, noted_send)

    async def _served(self, request: Request, receive: Receive, send: Send) -> None:
        body = Body(receive, self._room, whole(request.headers.get("content-length", "")) or 0)
        try:
            refusal = await self._read(request, body)
            if refusal is not None:
                await _refuse(send, request, refusal, body)
            else:
                await self._answered(request, body, receive, send)
        finally:
            body.close()

    async def _answered(self, request: Request, body: Body, receive: Receive, send: Send) -> None:
        client = _Client(receive)
        try:
            answer = await self._answer(request, body, client)
            if not isinstance(answer, Stream):
                await _send(send, answer)
                return
            with self._open.held(_caller(request)):
                await self._stream(request, answer, client, send)
        except TooMany as e:
            await _send(send, wire_answer(request, self._app.failed(request, e)))
        finally:
            client.close()

    async def _read(self, request: Request, body: Body) -> _Refused | None:
        """Read the body; a refusal where it is too large, too slow, or one too many."""
        try:
            if not await body.read(min(STRANGERS_BODY, self._max_body)):
                limit = await self._in_thread(self._app.admit, request)
                if isinstance(limit, Response):
                    return _Refused(limit, self._max_body)
                limit, body.sender = min(limit, self._max_body), request.sender
                if not await body.read(limit):
                    return _Refused(_too_large(limit), 3 * limit)
        except TooSlow:
            return _Refused(_too_slow(), self._max_body)
        except BodyMemoryFull:
            return _Refused(_no_room(), self._max_body)
        request.body = body.content()
        return None

    async def _answer(self, request: Request, body: Body, client: "_Client") -> WireAnswer | Stream:
        """Call the handler. While it returns Wait, wait for its topic and call it again."""
        route = self._app.shared_by(request)
        if route is not None:
            common = await self._batches.answer(route, request)
            if common is not None:
                return common
        request.final = self._app.ctx.host.may_wait_s <= 0
        wake_count = self._notifier.seen()
        answer = await self._asked(request)
        if not isinstance(answer, Wait):
            return answer
        # The request may wait for requests that need the room, such as ranks that exchange data.
        body.close()
        caller = _caller(request)
        if not self._waits.has_room(caller):
            # Some clients ask again at once: the pause bounds how often, and takes no thread.
            await client.run_while_connected(asyncio.sleep(_BEYOND_ROOM_S))
            return await self._last_asked(request)
        with self._waits.held(caller):
            return await self._waited(request, answer, wake_count, client)

    async def _waited(
        self, request: Request, answer: Wait, seen: int, client: "_Client"
    ) -> WireAnswer | Stream:
        """Call the handler of a long poll again whenever its topic is woken, and once more when its time is up."""
        deadline = time.monotonic() + min(answer.seconds, self._app.ctx.host.may_wait_s)
        while not self._ending and (remaining_s := deadline - time.monotonic()) > 0:
            pause = self._notifier.wait(answer.topic, remaining_s, seen)
            if not await client.run_while_connected(pause):
                break
            seen = self._notifier.seen()
            next_answer = await self._asked(request)
            if not isinstance(next_answer, Wait):
                return next_answer
            answer = next_answer
        return await self._last_asked(request)

    async def _last_asked(self, request: Request) -> WireAnswer | Stream:
        request.final = True
        answer = await self._asked(request)
        if isinstance(answer, Wait):
            raise RuntimeError(f"{request.path} waits although it was told not to")
        return answer

    async def _asked(self, request: Request) -> WireAnswer | Stream | Wait:
        async with self._callers.of(request), self._large if _is_large(request) else nullcontext():
            return await self._in_thread(self._handle, request)

    async def _in_turn(self, request: Request, call: Callable[..., T], *args: object) -> T:
        """Call in a thread, of which all requests of a caller have some at once."""
        async with self._callers.of(request):
            return await self._in_thread(call, *args)

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    def _handle(self, request: Request) -> WireAnswer | Stream | Wait:
        """Call the handler in a worker thread, with a copy of the request, so that each call starts afresh."""
        copy = replace(request)
        answer: Answer = self._app.handle(copy)
        request.route, request.params = copy.route, copy.params
        if copy.principal is not None:
            request.sender = copy.principal.caller
            self._callers.know(request, request.sender)
        return wire_answer(request, answer) if isinstance(answer, Response) else answer

    async def _stream(
        self, request: Request, stream: Stream, client: "_Client", send: Send
    ) -> None:
        await _start(send, 200, stream_headers(stream))
        cursor, is_over = stream.cursor, request.method == "HEAD"
        while not is_over:
            wake_count = self._notifier.seen()
            batch = await self._in_turn(request, next_batch, self._app, request, stream, cursor)
            cursor, is_over = batch.cursor, batch.done
            if batch.lines:
                await client.run_while_connected(_send_part(send, b"".join(batch.lines)))
            elif batch.unfinished:
                await client.run_while_connected(asyncio.sleep(0))
            elif not is_over:
                pause = self._notifier.wait(stream.topic, _STREAM_PAUSE_S, wake_count)
                await client.run_while_connected(pause)
                if self._ending:
                    raise Disconnected
        await send({"type": "http.response.body", "body": b""})

    def _request(self, scope: Message) -> Request:
        request = _request(scope)
        request.client = self._address_of(request.client, request.headers)
        return request

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        with ExitStack() as stack:
            await receive()
            try:
                if self._background is not None:
                    stack.enter_context(self._background())
            except Exception as e:
                await send({"type": "lifespan.startup.failed", "message": str(e)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
        self._threads.shutdown()
        await send({"type": "lifespan.shutdown.complete"})


def peer_address(peer: str, headers: Mapping[str, str]) -> str:
    """Return the address of the connection, and ignore headers."""
    return peer


def last_hop(peer: str, headers: Mapping[str, str]) -> str:
    """Return the address that the front end appends to the list of the client, which may be forged."""
    return headers.get("x-forwarded-for", "").rpartition(",")[2].strip() or peer


def _request(scope: Message) -> Request:
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        query.setdefault(name, []).append(value)
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        separator = "; " if name == "cookie" else ", "
        headers[name] = f"{headers[name]}{separator}{value}" if name in headers else value
    raw_path = scope.get("raw_path")
    client = scope.get("client")
    return Request(
        method=scope.get("method", "GET"),
        path=raw_path.decode("latin-1") if raw_path else quote(scope["path"]),
        query=query,
        headers=headers,
        client=client[0] if client else "",
        scheme=scope.get("scheme", "http"),
    )


def _caller(request: Request) -> str:
    """Return the caller that a held request counts for. Requests without sign-in count for their address."""
    if request.sender:
        return request.sender
    # Some handlers read the token by themselves, and answer by a stream or a long poll only where it is good.
    return of_token_or_address(request)


def _is_large(request: Request) -> bool:
    """Return whether the body of a request is larger than the limit of forms, or may be after decompression."""
    is_packed = "content-encoding" in request.headers
    return len(request.body) * (_MOST_PACKED if is_packed else 1) > FORM_BODY


async def refuse_websocket(receive: Receive, send: Send, why: Response) -> None:
    """Reject a websocket request with an HTTP response."""
    await receive()
    fields = {"content-type": "application/json", **why.headers}
    headers = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in fields.items()]
    start = {"type": "websocket.http.response.start", "status": why.status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": why.body})


def _too_large(limit: int) -> Response:
    error = TooLarge(f"the request is larger than {_shown_size(limit)}: send less, or in parts")
    return Response(error.to_json(), error.status)


def _too_slow() -> Response:
    least = f"{LEAST_BYTES_S >> 10} KiB/s"
    error = RequestTimeout(f"the body of the request comes too slowly: at least {least} are needed")
    return Response(error.to_json(), error.status, headers={"Connection": "close"})


def _no_room() -> Response:
    error = Unavailable("too many large requests at once: send this one again in some seconds")
    headers = {"Retry-After": str(_RETRY_AFTER_S)}
    return Response(error.to_json(), error.status, headers=headers)


def _shown_size(limit: int) -> str:
    return f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"


async def _send(send: Send, answer: WireAnswer) -> None:
    await _start(send, answer.status, answer.headers)
    await send({"type": "http.response.body", "body": answer.body})


async def _refuse(send: Send, request: Request, refusal: _Refused, body: Body) -> None:
    """Answer at once, and end the answer when the client has sent its body: until then the connection stays."""
    answer = wire_answer(request, refusal.answer)
    await _start(send, answer.status, answer.headers)
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    # Reading would send `100 Continue` to a client that waits for it.
    if body.is_begun or "expect" not in request.headers:
        await body.drain(refusal.drained)
    await send({"type": "http.response.body", "body": b""})


async def _send_part(send: Send, body: bytes) -> None:
    try:
        await send({"type": "http.response.body", "body": body, "more_body": True})
    except OSError as e:
        raise Disconnected from e


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
