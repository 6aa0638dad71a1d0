"""One container cannot take all threads or connections of an agent's gateway from other containers of its machine."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler

import pytest
from det_agent import connection_limits
from det_agent.connection_limits import LimitedServer

from tests.support.threaded import serving


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    # Addresses of this machine represent containers.
    monkeypatch.setattr(connection_limits, "MOST_OF_ONE_CONTAINER", 2)
    monkeypatch.setattr(connection_limits, "_is_of_machine", lambda address: False)
    server = LimitedServer(("127.0.0.1", 0), Answering)
    with serving(server):
        yield server.server_port


def connected(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60, (address, 0))


def response_on(connection: socket.socket) -> bytes:
    """Return the beginning of the response, or b'' if the connection was closed without a response."""
    try:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(65_536)
    except ConnectionError:
        return b""


def test_connections_of_one_container_are_limited(port: int) -> None:
    """Silent connections would each have a thread for ten minutes."""
    with ExitStack() as stack:
        first, _ = (stack.enter_context(connected(port)) for _ in range(2))
        assert b" 204 " in response_on(first)
        excess = stack.enter_context(connected(port))
        received_bytes = excess.recv(65_536)
        assert received_bytes.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 5" in received_bytes
        assert b" 204 " in response_on(stack.enter_context(connected(port, "127.0.0.2")))
        first.close()
        answer = b""
        while b" 204 " not in answer:  # until the server has noticed
            with connected(port) as second_connection:
                answer = response_on(second_connection)


def test_rejected_caller_can_read_the_error_after_sending_its_body(port: int) -> None:
    """Closed with bytes unread, its connection would be reset: a broken pipe instead of the reason."""
    with ExitStack() as stack:
        for _ in range(2):
            assert b" 204 " in response_on(stack.enter_context(connected(port)))
        for _ in range(20):
            excess = stack.enter_context(connected(port))
            for _ in range(4):
                excess.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 4096)
            assert excess.recv(65_536).startswith(b"HTTP/1.1 503 ")


def test_excess_rejected_callers_are_closed_without_a_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limits, "_REFUSED_AT_ONCE", 1)
    monkeypatch.setattr(connection_limits, "_LINGER_S", 600)
    monkeypatch.setattr(connection_limits, "MOST_OF_ONE_CONTAINER", 0)
    monkeypatch.setattr(connection_limits, "_is_of_machine", lambda address: False)
    server = LimitedServer(("127.0.0.1", 0), Answering)
    with serving(server), connected(server.server_port) as rejected:
        assert rejected.recv(65_536).startswith(b"HTTP/1.1 503 ")
        with connected(server.server_port) as excess:
            assert excess.recv(65_536) == b""


def test_connections_of_all_containers_together_are_limited(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "MOST_CONNECTIONS", 64)
    server = LimitedServer(("127.0.0.1", 0), Answering)
    with serving(server), ExitStack() as stack:
        for n in range(64):
            stack.enter_context(connected(server.server_port, f"127.0.1.{n // 2 + 1}"))
        excess = stack.enter_context(connected(server.server_port, "127.0.2.1"))
        assert excess.recv(65_536).startswith(b"HTTP/1.1 503 ")


def test_loopback_connections_have_no_limit_per_container() -> None:
    server = LimitedServer(("127.0.0.1", 0), Answering)
    most = connection_limits.MOST_OF_ONE_CONTAINER
    with serving(server), ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(connected(server.server_port))
        assert b" 204 " in response_on(stack.enter_context(connected(server.server_port)))
