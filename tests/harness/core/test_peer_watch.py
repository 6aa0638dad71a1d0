"""Launchers of an elastic trial notice that another one disappeared."""

import socket
import threading
from collections.abc import Iterator

import pytest
from det_controlplane.core.lifecycle.allocation import LOST_PEER_STATUS
from determined.launch import _watch
from determined.launch._peers import Peers
from determined.launch._watch import PeerWatch

from tests.support.ports import free_port


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(_watch, "BEAT_S", 0.05)
    monkeypatch.setattr(_watch, "SILENCE_S", 0.5)
    monkeypatch.setenv("DET_PEER_KEY", "key")
    return free_port()


class Watched:
    """A launcher that watches, with the event of its loss."""

    def __init__(self, rank: int, port: int) -> None:
        self.lost = threading.Event()
        self.watch = PeerWatch(Peers(["127.0.0.1"] * 2, [1, 1], rank), port)
        self.watch.start(self.lost.set)

    def until_connected(self) -> None:
        for _ in range(200):
            if self.watch._channels:
                return
            self.lost.wait(0.05)
        raise AssertionError("the launchers did not connect")


def mute(launcher: Watched) -> None:
    """Let a launcher send nothing more, as if its machine had disappeared."""
    launcher.watch._send_all = lambda channels, message: None  # type: ignore[method-assign]


@pytest.fixture
def pair(port: int) -> Iterator[tuple[Watched, Watched]]:
    chief, other = Watched(0, port), Watched(1, port)
    chief.until_connected()
    other.until_connected()
    yield chief, other
    for launcher in (chief, other):
        launcher.watch.end()


def test_broken_connection_is_a_loss(pair: tuple[Watched, Watched]) -> None:
    chief, other = pair
    other.watch._channels[0]._sock.shutdown(socket.SHUT_RDWR)
    assert chief.lost.wait(5)
    assert chief.watch.has_lost_peer


def test_silence_is_a_loss(pair: tuple[Watched, Watched]) -> None:
    chief, other = pair
    mute(other)
    assert chief.lost.wait(5)


def test_chief_is_watched_too(pair: tuple[Watched, Watched]) -> None:
    chief, other = pair
    mute(chief)
    assert other.lost.wait(5)


def test_launchers_that_answer_are_not_lost(pair: tuple[Watched, Watched]) -> None:
    chief, other = pair
    assert not chief.lost.wait(1.5)
    assert not other.watch.has_lost_peer


def test_orderly_end_is_no_loss(pair: tuple[Watched, Watched]) -> None:
    chief, other = pair
    other.watch.end()
    assert not chief.lost.wait(1.5)
    assert not chief.watch.has_lost_peer


def test_strangers_are_not_watched(port: int) -> None:
    chief = Watched(0, port)
    for _ in range(100):
        try:
            stranger = socket.create_connection(("127.0.0.1", port), 5)
            break
        except OSError:
            chief.lost.wait(0.05)
    stranger.sendall(b"x" * 200)
    stranger.close()
    assert not chief.lost.wait(1)
    chief.watch.end()


def test_control_plane_knows_the_status_of_a_lost_peer() -> None:
    assert _watch.LOST_PEER_STATUS == LOST_PEER_STATUS
