"""Tunnels to ports of tasks."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from det_controlplane.db.engine.database import Database
from determined.common import tunnel
from determined.common.failures import Failure
from determined.common.http import Session
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from tests.support.api import Api, api_over
from tests.support.ports import free_port
from tests.support.relayed import Proxied, proxied, tcp_server


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as api:
        yield api


def shout(connection: socket.socket) -> None:
    """Answer in capitals when the client has sent all its data."""
    content = b""
    while part := connection.recv(1 << 16):
        content += part
    connection.sendall(content.upper())


def piped(task: Proxied, service: str, *options: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "determined.cli.tunnel", task.address, service, *options]
    env = {k: v for k, v in os.environ.items() if not k.startswith("DET_")}
    env["DET_USER_TOKEN"] = task.owner.token
    return subprocess.run(
        command, input=b"hello" * 100_000, capture_output=True, env=env, timeout=120
    )


def test_tunnel_connects_standard_streams_to_the_port(api: Api) -> None:
    ports = {"proxy_tcp": True}
    with tcp_server(shout) as port, proxied(api, [{"proxy_port": port, **ports}]) as task:
        service = f"{task.task}:{port}"
        result = piped(task, service, "--auth")
        assert (result.returncode, result.stdout) == (0, b"HELLO" * 100_000), result.stderr
        second_result = piped(task, service)
        assert (second_result.returncode, second_result.stdout) == (1, b"")
        assert b"hint: add --auth" in second_result.stderr
        assert b"Traceback" not in second_result.stderr


def test_local_port_is_forwarded_to_the_task(api: Api) -> None:
    messages: list[str] = []
    silent = free_port()
    ports = [{"proxy_tcp": True, "proxy_port": silent}]
    with tcp_server(shout) as port, proxied(api, [*ports, {"proxy_port": port}]) as task:
        session = Session(task.address, task.signed())
        # The tunnel also carries bytes to a port that is configured for HTTP.
        service = f"{task.task}:{port}"
        with tunnel.listening(session, service, "127.0.0.1", 0, messages.append) as local:
            clients = [socket.create_connection(("127.0.0.1", local)) for _ in range(3)]
            for client in clients:
                client.sendall(b"quiet")
                client.shutdown(socket.SHUT_WR)
            for client in clients:
                with client, client.makefile("rb") as answer:
                    assert answer.read() == b"QUIET"
        service = f"{task.task}:{silent}"
        with (
            tunnel.listening(session, service, "127.0.0.1", 0, messages.append) as local,
            socket.create_connection(("127.0.0.1", local)) as client,
        ):
            assert client.recv(10) == b""
    assert len(messages) == 1
    assert f"nothing listens at port {silent} of the task" in messages[0]


class _Elsewhere(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(307)
        self.send_header("Location", f"https://relay.test{self.path}")
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log."""


def test_redirect_is_not_followed_with_the_token() -> None:
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        session = Session(f"http://127.0.0.1:{server.server_address[1]}", retries=0)
        with (
            pytest.raises(Failure, match=r"refused the connection with status 307$"),
            tunnel.websocket_to(session, "task"),
        ):
            pass
        answering.join()


class Restarting:
    """A connection that the server closes because it restarts."""

    subprotocol = None

    def __iter__(self) -> Iterator[bytes]:
        raise ConnectionClosedError(Close(1012, ""), None)

    def send(self, part: bytes) -> None: ...

    def close(self) -> None: ...


def test_restart_of_the_server_is_reported() -> None:
    ended: list[int] = []
    with pytest.raises(Failure, match="brought up to date") as failure:
        tunnel.carry(Restarting(), lambda _: b"", lambda _: None, lambda: ended.append(1))
    assert "open it again" in (failure.value.hint or "")
    assert ended == [1]
