"""Posting messages to other systems: allowed addresses, and the meaning of each answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from det_controlplane.adapters.web_courier import WebCourier
from det_controlplane.ports.courier import Unsent

from tests.support.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def refusal(courier: WebCourier, url: str) -> Unsent:
    with pytest.raises(Unsent) as error:
        courier.post(url, b"{}", {})
    return error.value


def test_a_message_is_posted(receiver: Receiver) -> None:
    WebCourier(allow_private=True).post(f"{receiver.url}/a?b=c", b"{}", {"X-Mark": "yes"})
    (request,) = receiver.taken
    assert (request.path, request.body, request.headers["X-Mark"]) == ("/a?b=c", b"{}", "yes")


@pytest.mark.parametrize(
    ("status", "forever"), [(307, True), (404, True), (408, False), (429, False), (503, False)]
)
def test_other_responses_are_refusals(receiver: Receiver, status: int, forever: bool) -> None:
    receiver.status = status
    error = refusal(WebCourier(allow_private=True), receiver.url)
    assert str(error) == f"127.0.0.1 answered with status {status}"
    assert error.forever is forever
    assert len(receiver.taken) == 1  # no redirect is followed


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1",
        "2130706433", "[::1]", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]",
        "[2002:a00:1::]", "[fec0::1]", "[64:ff9b:1::a00:1]", "[::ffff:0:a00:1]", "[::a00:1]",
    ],
)  # fmt: skip
def test_rejects_private_addresses(host: str) -> None:
    for error in (refusal(WebCourier(), f"http://{host}:9/"), checked(f"https://{host}/")):
        assert "is an address of a private network" in str(error)
        assert error.forever


def checked(url: str) -> Unsent:
    with pytest.raises(Unsent) as error:
        WebCourier().check(url)
    return error.value


def test_rejects_name_with_any_private_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        family, kind = socket.AF_INET, socket.SOCK_STREAM
        return [(family, kind, 6, "", (address, port)) for address in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    assert "private network" in str(checked("https://rebinding.example.com"))


def test_courier_connects_to_the_checked_address(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server may answer differently the next time."""
    answers = iter([receiver.url.removeprefix("http://").split(":")[0], "203.0.113.1"])

    def resolved(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    hosts: list[str] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        hosts.append(address[0])
        connected = socket.socket()
        connected.settimeout(timeout)
        connected.connect(address)
        return connected

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "create_connection", connect)
    port = receiver.url.rsplit(":", 1)[1]
    WebCourier(allow_private=True).post(f"http://hook.example.com:{port}/", b"{}", {})
    assert hosts == ["127.0.0.1"]


def test_refused_connection_is_retried() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        error = refusal(
            WebCourier(allow_private=True), f"http://127.0.0.1:{unused.getsockname()[1]}"
        )
    assert str(error) == "127.0.0.1 does not answer: Connection refused"
    assert not error.forever


def test_name_without_an_address_is_retried() -> None:
    error = refusal(WebCourier(), "https://nowhere.invalid/")
    assert str(error) == "cannot resolve nowhere.invalid"
    assert not error.forever


def test_silent_target_times_out() -> None:
    with closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        courier = WebCourier(allow_private=True, timeout_s=0.2)
        error = refusal(courier, f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "does not answer" in str(error)


def test_a_target_that_dribbles_is_cut_off() -> None:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        stop = threading.Event()

        def dribble() -> None:
            connection, _ = listening.accept()
            with closing(connection):
                while not stop.wait(0.05):
                    try:
                        connection.send(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=dribble)
        thread.start()
        courier = WebCourier(allow_private=True, timeout_s=0.5)
        try:
            error = refusal(courier, f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            stop.set()
            thread.join()
    assert "does not answer" in str(error)
    assert not error.forever
