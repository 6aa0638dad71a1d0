"""Connections of strangers end if they are silent, send too much, or are too many."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from det_controlplane.entry.server import limits, protocol
from det_controlplane.entry.server.api_server import uvicorn_settings
from det_controlplane.entry.server.protocol import LARGEST_HEADERS

Message = MutableMapping[str, Any]
_TIMEOUT_S = 60
_BEGINNING = b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: "


async def answer(scope: Message, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def no_answer(scope: Message, receive: Any, send: Any) -> None:
    raise AssertionError("no request was made")


def on_port(app: Any, use: Callable[[int], Awaitable[bytes]], most_of_address: int = 0) -> bytes:
    """Return the answer for a client of a server with the API's settings."""

    async def scenario() -> bytes:
        config = uvicorn.Config(app, lifespan="off", **uvicorn_settings(most_of_address))
        config.load()
        state = uvicorn.Server(config).server_state
        listening = await asyncio.get_running_loop().create_server(
            lambda: config.http_protocol_class(config=config, server_state=state, app_state={}),  # type: ignore[call-arg]
            "127.0.0.1",
            0,
        )
        async with listening:
            return await asyncio.wait_for(use(listening.sockets[0].getsockname()[1]), _TIMEOUT_S)

    return asyncio.run(scenario())


def answered(app: Any, request: bytes, *, ends: bool = False) -> bytes:
    """Return the data of the server until it closes the connection. `ends` closes the client's direction."""

    async def use(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        if ends:
            writer.write_eof()
        response = b""
        with suppress(ConnectionError):
            while part := await reader.read(65_536):
                response += part
        writer.close()
        return response

    return on_port(app, use)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(protocol, "HEADERS_S", 0.05)
    assert answered(no_answer, sent) == b""


@pytest.mark.parametrize(
    "sent",
    [
        _BEGINNING + b"a" * LARGEST_HEADERS,
        _BEGINNING + b"a" * LARGEST_HEADERS + b"\r\n\r\n",
        b"GET /" + b"a" * LARGEST_HEADERS,
        b"GET / HTTP/1.1\r\n" + b"X-Short: a\r\n" * (LARGEST_HEADERS // 10) + b"\r\n",
    ],
    ids=["unfinished", "complete", "address", "many"],
)
def test_rejects_headers_above_the_limit(sent: bytes) -> None:
    assert answered(no_answer, sent, ends=True).startswith(b"HTTP/1.1 431 ")


def test_large_headers_after_a_request_close_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Headers behind a request that is not answered yet end the connection without an answer."""
    monkeypatch.setattr(protocol, "LINGER_S", 0.01)
    disconnected = []

    async def waiting(scope: Message, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        disconnected.append(True)

    first = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    assert b"431" not in answered(waiting, first + _BEGINNING + b"a" * 8 * LARGEST_HEADERS)
    assert disconnected == [True]


def test_chunked_body_does_not_count_as_headers() -> None:
    """The framing of its pieces does not count, however it is cut."""
    piece = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
    content = bytearray()

    async def count(scope: Message, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            content.extend(message["body"])
            more = message["more_body"]
        await answer(scope, receive, send)

    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = 4 * LARGEST_HEADERS // 0x1000
    assert b" 204 " in answered(count, head + piece * pieces + b"0\r\n\r\n")
    assert len(content) == pieces * 0x1000


def test_large_trailers_close_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "LINGER_S", 0.01)
    monkeypatch.setattr(protocol, "HEADERS_S", 10 * _TIMEOUT_S)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: "
    answered(answer, head + b"a" * 8 * LARGEST_HEADERS)  # which ends


def test_rejects_connections_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some get a refusal; further ones are closed at once."""
    monkeypatch.setattr(protocol, "_MOST_CONNECTIONS", 3)
    monkeypatch.setattr(protocol, "_FEWEST", 3)
    monkeypatch.setattr(protocol, "_REFUSED_AT_ONCE", 1)
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    async def use(port: int) -> bytes:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        excess, beyond_writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            assert await excess.read() == b""
        responses = b""
        for reader, writer in idle:
            writer.write(request)
            responses += await reader.read()
            writer.close()
        beyond_writer.close()
        return responses

    responses = on_port(answer, use)
    assert responses.count(b" 503 ") == 2
    assert responses.count(b" 204 ") == 2


_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def spoken(client: Client, request: bytes = _REQUEST) -> bytes:
    client[1].write(request)
    return await client[0].readuntil(b"\r\n\r\n")


def test_connections_are_limited_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a connection beyond the limit of its address with the cause; admit one again after another has ended."""
    asking = "192.0.2.1"
    monkeypatch.setattr(limits, "_address_of", lambda transport: asking)
    monkeypatch.setattr(protocol, "_REFUSED_AT_ONCE", 1)

    async def use(port: int) -> bytes:
        nonlocal asking
        own = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert all([b" 204 " in await spoken(client) for client in own])
        reply = await asyncio.open_connection("127.0.0.1", port)
        excess = await asyncio.open_connection("127.0.0.1", port)
        rejection = await spoken(reply) + await reply[0].read()
        with suppress(ConnectionError):
            excess[1].write(_REQUEST)
            assert await excess[0].read() == b""

        asking = "192.0.2.2"
        other = await asyncio.open_connection("127.0.0.1", port)
        assert b" 204 " in await spoken(other)

        asking = "192.0.2.1"
        own.pop()[1].close()
        fits = b""
        while b" 204 " not in fits:  # until the server has noticed
            second_connection = await asyncio.open_connection("127.0.0.1", port)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                fits = await spoken(second_connection)
            second_connection[1].close()
            await asyncio.sleep(0.01)
        for client in (*own, reply, excess, other):
            client[1].close()
        return rejection

    rejection = on_port(answer, use, most_of_address=2)
    assert rejection.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 5\r\n" in rejection
    assert b"security.max_connections_per_address" in rejection


def test_websocket_counts_as_a_connection_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_address_of", lambda transport: "192.0.2.1")
    handshake = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    async def accepting(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await answer(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    async def use(port: int) -> bytes:
        carrying = await asyncio.open_connection("127.0.0.1", port)
        assert b" 101 " in await spoken(carrying, handshake)
        excess = await asyncio.open_connection("127.0.0.1", port)
        reply = await spoken(excess)
        excess[1].close()
        carrying[1].close()
        fits = b""
        while b" 204 " not in fits:  # until the server has noticed
            second_connection = await asyncio.open_connection("127.0.0.1", port)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                fits = await spoken(second_connection)
            second_connection[1].close()
            await asyncio.sleep(0.01)
        return reply

    assert b" 429 " in on_port(accepting, use, most_of_address=1)


def test_connections_from_this_machine_are_not_limited_by_address() -> None:
    """Behind a proxy here they are everybody's."""

    async def use(port: int) -> bytes:
        own = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        responses = b"".join([await spoken(client) for client in own])
        for client in own:
            client[1].close()
        return responses

    assert on_port(answer, use, most_of_address=1).count(b" 204 ") == 3
