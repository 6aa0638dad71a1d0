"""Connections to an HTTPS server are bounded before they have shaken hands, and end when they do not."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from det_controlplane.entry.server import handshakes, limits, protocol
from det_controlplane.entry.server.api_server import listen, uvicorn_settings
from det_controlplane.entry.server.handshakes import HttpsServer

from tests.support.certificates import write_certificate

_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
_TIMEOUT_S = 60
Use = Callable[[int], Awaitable[None]]
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]

pytestmark = pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


@pytest.fixture(autouse=True)
def _few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server take three connections, and refuse one."""
    monkeypatch.setattr(protocol, "_MOST_CONNECTIONS", 3)
    monkeypatch.setattr(protocol, "_FEWEST", 3)
    monkeypatch.setattr(protocol, "_REFUSED_AT_ONCE", 1)
    monkeypatch.setattr(protocol, "LINGER_S", 0.01)


async def answer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


def served(tmp_path: Path, make_loop: Any, use: Use, most_of_address: int = 0) -> None:
    """Run a client against an HTTPS server with the API's settings."""
    cert, key = write_certificate(tmp_path)
    settings = uvicorn_settings(most_of_address)
    config = uvicorn.Config(answer, lifespan="off", ssl_certfile=cert, ssl_keyfile=key, **settings)
    server = HttpsServer(config, lambda: None)
    # The loop of the test has the signals.
    server.capture_signals = suppress  # type: ignore[method-assign, assignment]

    async def scenario() -> None:
        with listen("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
            serving = asyncio.create_task(server.serve([listening]))
            try:
                await asyncio.wait_for(use(port), _TIMEOUT_S)
            finally:
                server.should_exit = True
                await serving

    with closing(make_loop()) as loop:
        loop.run_until_complete(scenario())


async def silent(port: int) -> Client:
    return await asyncio.open_connection("127.0.0.1", port)


async def response_at(port: int) -> bytes:
    """Return the answer to a request over TLS, or an empty one if the connection is closed at once."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(_REQUEST)
        response = await reader.read()
        writer.close()
        return response
    return b""


async def answered(port: int) -> None:
    """Ask until the server has noticed that there is room."""
    while b" 200 " not in (response := await response_at(port)):
        await asyncio.sleep(0.01)
    assert b"https" in response


async def ended(client: Client) -> None:
    with suppress(ConnectionError):
        assert await client[0].read() == b""
    client[1].close()


def test_connections_without_a_handshake_are_limited(tmp_path: Path, make_loop: Any) -> None:
    """Close excess connections at once, although all others wait; serve again when some have ended."""

    async def use(port: int) -> None:
        waiting = [await silent(port) for _ in range(4)]
        excess = [await silent(port) for _ in range(8)]
        for client in excess:
            await ended(client)
        assert not any(reader.at_eof() for reader, _ in waiting)
        for _, writer in waiting:
            writer.close()
        await answered(port)

    served(tmp_path, make_loop, use)


def test_connection_without_a_handshake_is_closed(
    tmp_path: Path, make_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.05)

    async def use(port: int) -> None:
        slow = [await silent(port) for _ in range(3)]
        slow[0][1].write(b"\x16\x03\x01")  # the first bytes of a handshake
        slow[1][1].write(_REQUEST)
        for client in slow:
            with suppress(ConnectionError):
                await client[0].read()  # which ends
            client[1].close()
        await answered(port)

    served(tmp_path, make_loop, use)


def test_handshakes_are_limited_by_address(
    tmp_path: Path, make_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count a connection for its address once, before its handshake and after."""
    asking = "192.0.2.1"
    monkeypatch.setattr(limits, "_address_of", lambda peer: asking)
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 10 * _TIMEOUT_S)

    async def use(port: int) -> None:
        nonlocal asking
        await answered(port)
        waiting = await silent(port)
        while b" 429 " not in await response_at(port):
            await asyncio.sleep(0.01)
        crowd = [await silent(port) for _ in range(3)]
        endings = [asyncio.create_task(ended(client)) for client in crowd]
        await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        asking = "192.0.2.2"
        await answered(port)
        asking = "192.0.2.1"
        for _, writer in (waiting, *crowd):
            writer.close()
        await answered(port)

    served(tmp_path, make_loop, use, most_of_address=1)
