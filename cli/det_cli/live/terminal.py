"""The terminal during a live screen: its size, its keys, and its saved settings."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import tty
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # alternate screen, hidden cursor, no line wrapping
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_KEYS = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"k": "up", b"j": "down",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down", b" ": "page down", b"b": "page up",
    b"\x1b[H": "home", b"\x1b[F": "end", b"\x1bOH": "home", b"\x1bOF": "end", b"g": "home", b"G": "end",
    b"q": "quit", b"Q": "quit", b"\x04": "quit",
}  # fmt: skip
_NEWS, _SUSPEND, _END = b"n", b"z", b"e"
_SMALLEST = (20, 4)


class Ended(Exception):
    """Raised after SIGTERM or SIGHUP. `number` is the signal number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Terminal:
    """Controls the terminal during a live screen and restores its settings afterwards."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown: list[str] = []
        self._keys = sys.stdin.fileno() if _is_terminal(sys.stdin) else None
        self._before: list[Any] = []
        self._wake_reader, self._wake_writer = os.pipe()
        self._ended_by = 0
        self._size = (0, 0)

    @property
    def has_keys(self) -> bool:
        return self._keys is not None

    @contextlib.contextmanager
    def full_screen(self) -> Iterator["Terminal"]:
        """Use the whole screen inside the context and restore the terminal at its end."""
        os.set_blocking(self._wake_writer, False)
        handlers = {
            signal.SIGWINCH: self._on_news,
            signal.SIGTSTP: self._on_suspend,
            signal.SIGTERM: self._on_end,
            signal.SIGHUP: self._on_end,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._enter()
            yield self
        finally:
            self._leave()
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Close the pipe. No thread may call `wake` afterwards."""
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def wake(self) -> None:
        """Make `wait` return. Any thread may call this."""
        self._send(_NEWS)

    def size(self) -> tuple[int, int]:
        """Return the columns and lines. After a change, the next `draw` redraws all lines."""
        try:
            packed = fcntl.ioctl(self._out.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
            lines, columns = struct.unpack("HHHH", packed)[:2]
        except OSError:
            lines, columns = 0, 0
        size = max(columns or 80, _SMALLEST[0]), max(lines or 24, _SMALLEST[1])
        if size != self._size:
            self._size = size
            self.forget()
        return size

    def draw(self, lines: list[str]) -> None:
        """Draw the lines from the top. Unchanged lines are not written again."""
        moved = len(lines) != len(self._shown)
        parts = [
            f"\x1b[{row};1H\x1b[K{text}\x1b[0m"  # after the text it would erase a last column
            for row, text in enumerate(lines, 1)
            if moved or self._shown[row - 1] != text
        ]
        if moved:
            parts.append("\x1b[J")
        self._shown = lines
        if parts:
            self._write("".join(parts))

    def forget(self) -> None:
        """Make the next `draw` redraw all lines."""
        self._shown = []

    def wait(self, seconds: float) -> list[str]:
        """Wait for a key, a new state or a new window size. Return the keys."""
        sources = [self._wake_reader] if self._keys is None else [self._wake_reader, self._keys]
        ready = select.select(sources, [], [], seconds)[0]
        messages = os.read(self._wake_reader, 4096) if self._wake_reader in ready else b""
        if _END in messages:
            raise Ended(self._ended_by)
        if _SUSPEND in messages:
            self._suspend()
        return self._read_keys() if self._keys in ready else []

    def _read_keys(self) -> list[str]:
        assert self._keys is not None
        typed = os.read(self._keys, 64)
        if not typed:
            self._keys = None  # stdin was closed
            return ["quit"]
        return list(_parse_keys(typed))

    def _suspend(self) -> None:
        """Handle Ctrl-Z: restore the terminal, stop the process, and redraw after it continues."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()

    def _enter(self) -> None:
        if self._keys is not None:
            self._before = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSADRAIN)
        self.forget()
        self._write(_ENTER)

    def _leave(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._write(_LEAVE)
        if self._keys is not None and self._before:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _send(self, byte: bytes) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, byte)

    def _on_news(self, number: int, frame: "FrameType | None") -> None:
        self._send(_NEWS)

    def _on_suspend(self, number: int, frame: "FrameType | None") -> None:
        self._send(_SUSPEND)

    def _on_end(self, number: int, frame: "FrameType | None") -> None:
        self._ended_by = number
        self._send(_END)


def _parse_keys(typed: bytes) -> Iterator[str]:
    while typed:
        length = next((n for n in (4, 3, 1) if typed[:n] in _KEYS), 0)
        if length:
            yield _KEYS[typed[:length]]
        typed = typed[length or _length(typed) :]


def _length(typed: bytes) -> int:
    """Return the length of an unknown key. An escape sequence ends with a letter or a tilde."""
    if not typed.startswith(b"\x1b"):
        return 1
    ends = (i for i, byte in enumerate(typed[2:], 3) if 0x40 <= byte <= 0x7E)
    return next(ends, len(typed))


def _is_terminal(stream: "TextIO | None") -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def can_show() -> bool:
    """Return True if the output is a terminal with cursor movement."""
    return _is_terminal(sys.stdout) and os.environ.get("TERM", "") not in ("", "dumb")
