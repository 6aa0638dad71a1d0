"""The relay carries websockets of tasks, and TCP connections inside websockets."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from det_controlplane.db.engine.database import Database
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as serve_websockets
from websockets.typing import Subprotocol

from tests.entry.test_relay import PIECE
from tests.support.api import Api, api_over
from tests.support.relayed import proxied, tcp_server


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


@contextmanager
def websocket_server(answer: Callable[[ServerConnection], None], **more: Any) -> Iterator[int]:
    """Serve websockets, and yield the port."""
    with serve_websockets(answer, "127.0.0.1", 0, **more) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            thread.join()


def kernel() -> AbstractContextManager[int]:
    """Serve websockets like a kernel: send each message back, and close after "bye"."""

    def answer(websocket: ServerConnection) -> None:
        for message in websocket:
            websocket.send(message)
            if message == "bye":
                websocket.close(4001, "as asked")

    return websocket_server(answer, subprotocols=["v1.kernel"], max_size=None)


def talk_to_kernel(url: str, headers: Mapping[str, str]) -> None:
    """Send messages, and check that they and the close code come back unchanged."""
    protocols = [Subprotocol("other"), Subprotocol("v1.kernel")]
    with connect(url, additional_headers=headers, subprotocols=protocols, max_size=None) as client:
        assert client.subprotocol == "v1.kernel"
        for message in ("text", PIECE * 20, "bye"):
            client.send(message)
            assert client.recv(60) == message
        with pytest.raises(ConnectionClosed):
            client.recv(60)
        assert (client.close_code, client.close_reason) == (4001, "as asked")


def echo_bytes(connection: socket.socket) -> None:
    """Send all bytes back when the client has sent its last one, and then " and out"."""
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    connection.sendall(data + b" and out")


def received(client: Any) -> bytes:
    data = b""
    while part := client.recv(60):
        data += part
    return data


def test_relay_forwards_websocket_messages_unchanged(api: Api) -> None:
    with kernel() as port, proxied(api, [{"proxy_port": port}]) as task:
        talk_to_kernel(f"ws://{task.netloc}{task.path(port, '/ws')}", task.signed())


def test_too_large_message_ends_the_websocket(api: Api) -> None:
    with (
        websocket_server(lambda ws: ws.send(bytes(17 << 20))) as port,
        proxied(api, [{"proxy_port": port}]) as task,
    ):
        url = f"ws://{task.netloc}{task.path(port)}"
        client = connect(url, additional_headers=task.signed(), max_size=None)
        with client, pytest.raises(ConnectionClosed):
            client.recv(60)


def test_bytes_of_a_tcp_port_are_binary_messages(api: Api) -> None:
    with (
        tcp_server(echo_bytes) as port,
        proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as t,
    ):
        url = f"ws://{t.netloc}{t.path(port)}"
        halves = [Subprotocol("tcp.determined")]
        with connect(url, subprotocols=halves, additional_headers=t.signed()) as client:
            client.send(b"over")
            client.send(b"")
            assert received(client) == b"over and out"
        with pytest.raises(InvalidStatus) as error, connect(url):
            pass
        assert error.value.response.status_code == 401
        answer, body = t.ask("GET", t.path(port))
        assert (answer.status, b"carries raw TCP" in body) == (400, True)


def test_websocket_without_half_closes_ends_with_the_task(api: Api) -> None:
    def greet(connection: socket.socket) -> None:
        connection.sendall(b"hello")

    with tcp_server(greet) as port, proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as t:
        url = f"ws://{t.netloc}{t.path(port)}"
        with connect(url, additional_headers=t.signed()) as client:
            assert client.recv(60) == b"hello"
            with pytest.raises(ConnectionClosed):
                client.recv(60)
            assert client.close_code == 1000
