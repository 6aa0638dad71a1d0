"""Terminals that a shell task serves to browsers, with the frames that the WebUI sends."""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from determined.exec import _terminal
from determined.exec._terminal_connection import HELLO_S, LONGEST_HELLO, WINDOW, Connection
from determined.exec._terminal_session import Session

_HEAD = struct.Struct(">cI")
PATIENCE_S = 90.0


class Window:
    """A browser's page, as the task sees it."""

    def __init__(self, port: int, name: str = "a", token: str = "right", **more: object) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        hello = {"token": token, "session": name, "size": [100, 30], **more}
        self.send(b"h", json.dumps(hello).encode())

    def send(self, kind: bytes, body: bytes) -> None:
        self.sock.sendall(_HEAD.pack(kind, len(body)) + body)

    def line(self, text: str) -> None:
        self.send(b"i", f"{text}\n".encode())

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next frame, or an empty one at the end."""
        head = self._exactly(_HEAD.size)
        if len(head) < _HEAD.size:
            return b"", b""
        kind, length = _HEAD.unpack(head)
        return kind, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (part := self.sock.recv(count - len(data))):
            data += part
        return data

    def until(self, text: str) -> str:
        """Return the output up to and including a text."""
        data = b""
        while text.encode() not in data:
            kind, body = self.receive()
            assert kind == b"o", (kind, body, data)
            data += body
            assert len(data) < 16 << 20, "the output does not end"
            self.send(b"a", str(len(body)).encode())
        return data.decode()

    def rest(self) -> list[tuple[bytes, bytes]]:
        """Return all remaining frames except output."""
        frames = []
        while (frame := self.receive())[0]:
            if frame[0] != b"o":
                frames.append(frame)
        return frames


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Yield a function that serves terminals and returns the port."""
    monkeypatch.setenv("DET_WORKDIR", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/sh")
    with contextlib.ExitStack() as stack:

        def start(kept_s: float = 600.0) -> int:
            server = socket.create_server(("127.0.0.1", 0))
            terminals = _terminal.Terminals(server, "right", kept_s)
            thread = threading.Thread(target=terminals.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(terminals.close)
            port: int = server.getsockname()[1]
            return port

        yield start


@pytest.fixture
def port(serve: Callable[..., int]) -> int:
    return serve()


@contextlib.contextmanager
def background_job(window: Window) -> Iterator[int]:
    """Start a background program that keeps the terminal open. Yield a file that becomes readable at its end."""
    # The arithmetic distinguishes the output from the echo of the line.
    window.line("sleep 1000 & echo pid-$!-$((40+2))")
    output = window.until("-42\r\n")
    pid = int(output.partition("-42\r\n")[0].rpartition("pid-")[2])
    file = os.pidfd_open(pid)
    try:
        yield file
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(file, signal.SIGKILL)
        os.close(file)


@pytest.fixture
def window(port: int) -> Iterator[Window]:
    new_window = Window(port)
    yield new_window
    new_window.sock.close()


def test_shell_starts_in_context_directory_and_reports_its_status(
    window: Window, tmp_path: Path
) -> None:
    window.line("pwd; stty size; echo $((40+2))-$TERM")
    output = window.until("42-xterm-256color")
    assert str(tmp_path) in output
    assert "30 100" in output
    window.send(b"s", b"[120, 40]")
    window.line("stty size; echo re''sized")
    assert "40 120" in window.until("resized")
    window.line("exit 7")
    assert window.rest() == [(b"x", b"7")]


def test_prompt_of_bash_shortens_long_directories(window: Window) -> None:
    window.line("echo $((40+2))-$PROMPT_DIRTRIM")
    window.until("42-1")


@pytest.mark.parametrize("token", ["wrong", "", "\udc80"])
def test_rejects_connection_without_the_token(port: int, token: str) -> None:
    rejected_window = Window(port, token=token)
    assert all(kind == b"r" for kind, _ in rejected_window.rest())
    rejected_window.sock.close()


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"h\xff\xff\xff\xff", b"h\0\0\0\x01["])
def test_invalid_frames_end_only_their_connection(port: int, junk: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
        sock.sendall(junk)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(100)[:1] in (b"", b"r")
    window = Window(port)
    window.line("echo $((40+2))")
    window.until("42")
    window.sock.close()


def test_returning_window_gets_its_shell_and_output(port: int) -> None:
    first = Window(port)
    first.line("kept=here; echo $((40+2))")
    first.until("42")
    first.sock.close()
    second = Window(port)
    assert "42" in second.until("42")
    second.line("echo still-$kept")
    second.until("still-here")
    other = Window(port, name="b")
    other.line('echo "other-$kept-"')
    other.until("other--")
    for window in (second, other):
        window.sock.close()


def test_second_window_takes_over_and_the_first_is_notified(port: int, window: Window) -> None:
    window.line("echo $((40+2))")
    window.until("42")
    second = Window(port)
    assert window.rest() == [(b"t", b"")]
    second.line("echo $((2+1))-here")
    second.until("3-here")
    second.sock.close()


def test_output_waits_for_the_browser_and_ctrl_c_works(window: Window) -> None:
    window.line("yes fast")
    response = 0
    while response < WINDOW:
        kind, body = window.receive()
        assert kind == b"o"
        response += len(body)
    # The browser acknowledged no output, so only output that was already sent may arrive.
    while response < 2 * WINDOW and select.select([window.sock], [], [], 0.5)[0]:
        response += len(window.receive()[1])
    assert response < 2 * WINDOW
    window.send(b"i", b"\x03")
    window.send(b"a", str(response).encode())
    window.line("echo $((40+2))-after")
    window.until("42-after")


def test_ctrl_c_works_if_the_agent_was_started_in_the_background(
    serve: Callable[..., int],
) -> None:
    """A program that a shell starts in the background ignores SIGINT, and so do its own child processes."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        window = Window(serve())
        window.line("echo begun; sleep 600; echo $((40+2))-after")
        window.until("begun\r\n")
        window.send(b"i", b"\x03")
        window.line("echo $((40+3))-after")
        window.until("43-after")
    finally:
        signal.signal(signal.SIGINT, before)
    window.sock.close()


def test_abandoned_shell_is_hung_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    session = Session(kept_s=0.0)

    def run() -> None:
        session.pump()
        session.end()

    thread = threading.Thread(target=run)
    thread.start()
    own_end, other_end = socket.socketpair()
    own_end.close()
    with other_end, pytest.raises(EOFError):
        session.attend(Connection(other_end))
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_shell_ends_while_its_background_job_continues(window: Window) -> None:
    with background_job(window) as job:
        window.line("exit 3")
        assert window.rest() == [(b"x", b"3")]
        assert not select.select([job], [], [], 0)[0]


def test_background_jobs_are_hung_up_with_their_shell(serve: Callable[..., int]) -> None:
    window = Window(serve(kept_s=0.0))
    with background_job(window) as job:
        window.sock.close()
        assert select.select([job], [], [], PATIENCE_S)[0]


def test_window_that_connects_after_the_end_gets_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHELL", "/bin/true")
    session = Session(kept_s=0.0)
    session.pump()
    session.end()
    own_end, other_end = socket.socketpair()
    with own_end, other_end:
        with pytest.raises(EOFError):
            session.attend(Connection(other_end))
        assert own_end.recv(100).endswith(_HEAD.pack(b"x", 1) + b"0")


@pytest.mark.parametrize("size", [[0], "ab", 7, [1e999, 1]])
def test_invalid_window_size_starts_no_shell(
    port: int, monkeypatch: pytest.MonkeyPatch, size: object
) -> None:
    monkeypatch.setattr(_terminal, "_MOST_SESSIONS", 1)
    window_of_other_name = Window(port, name="wrong", size=size)
    assert window_of_other_name.receive() == (b"", b"")
    window = Window(port)
    window.line("echo $((40+2))")
    window.until("42")
    for each in (window_of_other_name, window):
        each.sock.close()


def test_long_greeting_is_not_read(port: int) -> None:
    long = Window(port, more="x" * LONGEST_HELLO)
    with contextlib.suppress(ConnectionResetError):
        assert long.receive() == (b"", b"")
    long.sock.close()


def test_slow_greeting_has_a_single_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 0.0, HELLO_S))
    monkeypatch.setattr("determined.exec._terminal_connection.time.monotonic", lambda: next(clock))
    own_end, other_end = socket.socketpair()
    with own_end, other_end:
        own_end.sendall(b"h")
        with pytest.raises(TimeoutError):
            Connection(other_end).greeting()


def test_connections_without_greeting_are_limited(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_terminal, "_MOST_GREETING", 1)
    port = serve()
    for name in "ab":  # a greeting makes room for the next
        window = Window(port, name)
        window.line("echo $((40+2))")
        window.until("42")
        window.sock.close()
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S):
        late = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        assert late.recv(1) == b""
        late.close()


def test_programs_of_the_shell_do_not_get_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_PORT", "3501")
    monkeypatch.setenv("DET_TERMINAL_TOKEN", "secret")
    assert _terminal.take_settings() == (3501, "secret")
    assert _terminal.take_settings() is None


def test_port_in_use_disables_only_the_terminals(
    port: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_SERVICE_HOST", "127.0.0.1")
    assert _terminal.serve(port, "right") is None
    assert f"port {port} cannot be used" in capfd.readouterr().err
