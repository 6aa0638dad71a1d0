"""Clients that disconnect while their task does not read: the server has stopped reading and is not notified."""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.relay import hangups
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.services.context import RELAY_PATH

from tests.support.api import Api, api_over
from tests.support.played_agent import PlayedAgent
from tests.support.relayed import Proxied, behind_an_api, proxied, tcp_server

# Less than the relay's limits for a task that does not read, and for a handshake.
SOON_S = 50
Served = Callable[[Api, list[dict[str, Any]]], AbstractContextManager[Proxied]]


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


class Deaf:
    """Accept connections without reading, and record their begin and end."""

    def __init__(self) -> None:
        self.came, self.left, self._over = threading.Event(), threading.Event(), threading.Event()

    def hold(self, connection: socket.socket) -> None:
        self.came.set()
        looking = select.poll()
        looking.register(connection, select.POLLRDHUP)
        while not self._over.is_set():
            if looking.poll(100):
                self.left.set()
                return

    @contextmanager
    def serving(self) -> Iterator[int]:
        with tcp_server(self.hold) as port:
            try:
                yield port
            finally:
                self._over.set()


@pytest.fixture
def deaf() -> Deaf:
    return Deaf()


def opened_request(task: Proxied, method: str, path: str, *headers: str) -> socket.socket:
    """Send the head of a request; yield the connection."""
    host, _, port = task.netloc.partition(":")
    client = socket.create_connection((host, int(port)), timeout=60)
    header_lines = [f"{name}: {value}" for name, value in task.signed().items()]
    lines = [f"{method} {path} HTTP/1.1", f"Host: {task.netloc}", *header_lines, *headers, "", ""]
    client.sendall("\r\n".join(lines).encode())
    return client


def upload(task: Proxied, path: str) -> socket.socket:
    return opened_request(task, "POST", path, f"Content-Length: {1 << 40}")


def fill_buffers(client: socket.socket) -> None:
    """Send until the other side reads no more for a while. The rest is in the buffers of this side."""
    client.setblocking(False)
    writable = select.poll()
    writable.register(client, select.POLLOUT)
    while writable.poll(2000):
        client.send(bytes(1 << 16))


@pytest.mark.parametrize("served", [proxied, behind_an_api])
def test_upload_ends_if_the_client_disconnects_while_the_task_does_not_read(
    api: Api, deaf: Deaf, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangups, "LOOKS_EVERY_S", 0.1)
    monkeypatch.setattr(hangups, "GRACE_S", 1.0)
    with deaf.serving() as port, served(api, [{"proxy_port": port}]) as task:
        with upload(task, task.path(port)) as client:
            fill_buffers(client)
            assert deaf.came.wait(60)
            assert not deaf.left.is_set()
        assert deaf.left.wait(SOON_S)


def test_waiting_client_is_not_disconnected(
    api: Api, deaf: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangups, "LOOKS_EVERY_S", 0.05)
    monkeypatch.setattr(hangups, "GRACE_S", 0.1)
    with (
        deaf.serving() as port,
        proxied(api, [{"proxy_port": port}]) as task,
        upload(task, task.path(port)) as client,
    ):
        client.setblocking(False)
        ready = select.poll()
        ready.register(client, select.POLLIN | select.POLLOUT)
        # Pokes show that it was looked at again and again.
        content, until = b"", time.monotonic() + 60
        while content.count(b"100 Continue") < 3 and time.monotonic() < until:
            for _, events in ready.poll(1000):
                if events & select.POLLIN:
                    content += client.recv(1 << 10)
                if events & select.POLLOUT:
                    client.send(bytes(1 << 16))
        assert content.count(b"100 Continue") >= 3
        assert not deaf.left.is_set()


def test_handshake_ends_if_the_client_disconnects(
    api: Api, deaf: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangups, "LOOKS_EVERY_S", 0.1)
    upgrade = (
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )  # fmt: skip
    with deaf.serving() as port, proxied(api, [{"proxy_port": port}]) as task:
        with opened_request(task, "GET", task.path(port), *upgrade):
            assert deaf.came.wait(60)
        assert deaf.left.wait(SOON_S)


def test_agent_that_disconnects_early_causes_no_error(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    agent = PlayedAgent(api, "a1")
    agent.join()
    header = (b"authorization", f"Bearer {agent.caller.token}".encode())
    scope = {
        "type": "websocket", "path": RELAY_PATH, "query_string": b"", "headers": [header], "subprotocols": [],
    }  # fmt: skip
    attempts: list[str] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        attempts.append(message["type"])
        raise OSError("the client is gone")

    asyncio.run(AsgiApp(api.app, LocalNotifier())(scope, receive, send))
    assert attempts == ["websocket.accept"]
    assert "failed" not in caplog.text
