"""Many streams at once, readers that do not read, agents and relays that go away."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.adapters.relay_streams import Link, StreamReset
from det_controlplane.core.relay_frames import WINDOW
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.relay import agents, sockets
from det_controlplane.entry.server.asgi import AsgiApp
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_now
from websockets.typing import Subprotocol

from tests.support.api import Api, api_over
from tests.support.ports import free_port
from tests.support.relayed import Proxied, proxied, tcp_server
from tests.support.socket_server import behind_socket

STREAMS = 100  # each takes four open files of this process
HALVES = [Subprotocol("tcp.determined")]


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


def echo(connection: socket.socket) -> None:
    while part := connection.recv(1 << 16):
        connection.sendall(part)


def pour(connection: socket.socket) -> None:
    """Send without end on request, and echo other data."""
    first = connection.recv(1 << 16)
    try:
        if first == b"pour":
            while True:
                connection.sendall(bytes(1 << 16))
        connection.sendall(first)
    except OSError:
        return


@contextmanager
def deaf_server() -> Iterator[int]:
    """Serve a port that takes connections and never reads."""
    over = threading.Event()

    def hold(connection: socket.socket) -> None:
        # The kernel's buffer differs by machine, up to tens of megabytes.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        over.wait()

    with tcp_server(hold) as port:
        try:
            yield port
        finally:
            over.set()


def url(task: Proxied, port: int) -> str:
    return f"ws://{task.netloc}{task.path(port)}"


def test_many_parallel_streams_have_separate_bytes(api: Api) -> None:
    async def all_of(task: Proxied, port: int) -> list[bytes]:
        gate = asyncio.Event()
        opened = 0

        async def one(number: int) -> bytes:
            nonlocal opened
            async with connect(
                url(task, port),
                subprotocols=HALVES,
                additional_headers=task.signed(),
                open_timeout=120,
            ) as websocket:
                opened += 1
                if opened == STREAMS:
                    gate.set()
                await gate.wait()
                await websocket.send(b"%d;" % number * 1000)
                await websocket.send(b"")
                data = b""
                while part := await websocket.recv():
                    assert isinstance(part, bytes)
                    data += part
                return data

        return await asyncio.gather(*map(one, range(STREAMS)))

    with tcp_server(echo) as port, proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task:
        assert asyncio.run(all_of(task, port)) == [b"%d;" % n * 1000 for n in range(STREAMS)]


def test_slow_reader_does_not_delay_other_connections(api: Api) -> None:
    with tcp_server(pour) as port, proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task:
        headers = task.signed()
        with connect_now(url(task, port), max_queue=1, additional_headers=headers) as slow:
            slow.send(b"pour")
            assert slow.recv(60)
            for _ in range(20):
                with connect_now(url(task, port), additional_headers=headers) as quick:
                    quick.send(b"quick")
                    assert quick.recv(60) == b"quick"
            came = 0
            while came < 3 * WINDOW:
                came += len(slow.recv(60))


def test_disconnected_agent_ends_its_streams_and_reconnects(api: Api) -> None:
    with tcp_server(echo) as port, proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task:
        with connect_now(url(task, port), additional_headers=task.signed()) as client:
            client.send(b"x")
            assert client.recv(60) == b"x"
            task.connection.set_address("")
            with pytest.raises(ConnectionClosed):
                client.recv(60)
            assert client.close_code == 1011
        task.connection.set_address("/agents/v1/relay")
        with connect_now(url(task, port), additional_headers=task.signed()) as client:
            client.send(b"y")
            assert client.recv(60) == b"y"


def test_bytes_after_the_end_close_only_their_own_connection(api: Api) -> None:
    with deaf_server() as deaf, tcp_server(echo) as port:
        ports = [{"proxy_port": p, "proxy_tcp": True} for p in (deaf, port)]
        with proxied(api, ports) as task:
            headers = task.signed()
            with (
                connect_now(url(task, port), additional_headers=headers) as other,
                connect_now(
                    url(task, deaf), subprotocols=HALVES, additional_headers=headers
                ) as odd,
            ):
                odd.send(b"")
                odd.send(b"and more")
                with pytest.raises(ConnectionClosed):
                    odd.recv(60)
                for _ in range(3):
                    other.send(b"still here")
                    assert other.recv(60) == b"still here"
                assert odd.close_code == 1011


def test_agents_reconnect_to_a_restarted_relay(api: Api) -> None:
    with tcp_server(echo) as port, proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task:
        # The same agent, now towards a server that stops and comes back at the same address.
        place = free_port()
        app = AsgiApp(api.app, LocalNotifier())
        with behind_socket(app, place) as address:
            task.connection.set_address(f"{address}/agents/v1/relay")
            assert answered(task, address, port) == b"x"
        second_app = AsgiApp(api.app, LocalNotifier())
        with behind_socket(second_app, place) as address:
            assert answered(task, address, port) == b"x"
        task.connection.set_address("")


def answered(task: Proxied, address: str, port: int) -> bytes:
    url_of_port = f"ws{address[4:]}{task.path(port)}"
    with connect_now(url_of_port, additional_headers=task.signed(), open_timeout=120) as client:
        client.send(b"x")
        answer = client.recv(60)
        assert isinstance(answer, bytes)
        return answer


def test_request_ends_if_its_task_does_not_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that went away goes unnoticed: requests would pile up until the server takes no more."""
    monkeypatch.setattr(agents, "PATIENCE_S", 0.2)
    with deaf_server() as port, proxied(api, [{"proxy_port": port}]) as task:
        answer, body = task.ask("POST", task.path(port), body=bytes(16 << 20))
        assert (answer.status, b"read nothing" in body) == (502, True), body


def _send_on(client: ClientConnection) -> None:
    for _ in range(1 << 8):
        client.send(bytes(1 << 18))


def _send_and_hear(client: ClientConnection) -> None:
    _send_on(client)
    client.recv(60)


def test_websocket_ends_if_its_task_does_not_read(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "PATIENCE_S", 0.2)
    with deaf_server() as port, proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task:
        with (
            connect_now(url(task, port), additional_headers=task.signed()) as client,
            pytest.raises(ConnectionClosed),
        ):
            _send_and_hear(client)
        assert client.close_code == 1011


def test_tunnel_to_a_closed_port_is_accepted_and_closed_with_a_reason(api: Api) -> None:
    port = free_port()
    with proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task:
        # Determined's client offers no subprotocol; ours shows the sentence of a refusal.
        with connect_now(url(task, port), additional_headers=task.signed()) as client:
            with pytest.raises(ConnectionClosed, match=f"nothing listens at port {port}"):
                client.recv(60)
            assert client.close_code == 1011
        with pytest.raises(InvalidStatus, match="502"):
            connect_now(url(task, port), subprotocols=HALVES, additional_headers=task.signed())


def test_rejects_a_websocket_that_the_task_does_not_accept(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "HANDSHAKE_S", 0.2)
    with (
        deaf_server() as port,
        proxied(api, [{"proxy_port": port}]) as task,
        pytest.raises(InvalidStatus, match="502"),
    ):
        connect_now(url(task, port), additional_headers=task.signed()).close()


def test_failed_connection_of_an_agent_leaves_no_stream() -> None:
    async def one() -> int:
        async def nowhere(_: bytes) -> None:
            return

        link = Link(nowhere, patience_s=0.01)
        with pytest.raises(StreamReset, match="did not connect"):
            await link.open("container", 1)
        return len(link)

    assert asyncio.run(asyncio.wait_for(one(), 60)) == 0
