"""A command in a terminal of its own, and the screen that it draws there."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

_SEQUENCE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


class Screen:
    """Understand the few sequences that our pictures are made of; anything else fails the test."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cells: list[str] = [""] * rows
        self.row = self.column = 0
        self.alternate = False
        self.cursor = True
        self.coloured = False
        self.before = ""  # what was printed while the screen was not taken
        self.entered = 0

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            match = _SEQUENCE.match(text, at)
            if match:
                self._obey(match[1], match[2])
                at = match.end()
                continue
            assert text[at] != "\x1b", f"unknown sequence: {text[at : at + 12]!r}"
            self._put(text[at])
            at += 1

    def _put(self, character: str) -> None:
        if not self.alternate:
            self.before += character
            return
        assert character.isprintable(), f"a control character on the screen: {character!r}"
        line = self.cells[self.row].ljust(self.column)
        self.cells[self.row] = line[: self.column] + character + line[self.column + 1 :]
        # Lines are not wrapped: the cursor stays on the last column.
        self.column = min(self.column + 1, self.columns - 1)

    def _obey(self, numbers: str, verb: str) -> None:
        if verb == "H":
            row, column = map(int, numbers.split(";"))
            # Like terminals: output for the previous size may still arrive.
            self.row, self.column = min(row, self.rows) - 1, column - 1
        elif verb == "K":
            self.cells[self.row] = self.cells[self.row][: self.column]
        elif verb == "J":
            self.cells[self.row + 1 :] = [""] * (self.rows - self.row - 1)
        elif verb == "m":
            self.coloured = self.coloured or numbers not in ("0", "")
        elif verb in "hl" and numbers == "?1049":
            self.alternate = verb == "h"
            self.entered += self.alternate
        elif verb in "hl" and numbers == "?25":
            self.cursor = verb == "h"
        else:
            assert (numbers, verb) in (("?7", "h"), ("?7", "l")), f"unknown: {numbers}{verb}"

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [""] * rows
        self.row = self.column = 0

    @property
    def text(self) -> str:
        return "\n".join(self.cells)


class Session:
    def __init__(self, process: "subprocess.Popen[bytes]", master: int, screen: Screen) -> None:
        self.process = process
        self.screen = screen
        self._master = master
        self._rest = b""

    def until(
        self, true: Callable[[Screen], Any], description: str, timeout_s: float = 120
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not true(self.screen):
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not self._read(remaining_s):
                message = f"printed:\n{self.screen.before}\nscreen:\n{self.screen.text}"
                pytest.fail(f"never happened: {description}; {message}")

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        # What was drawn for the old size is still on its way: it is read as such.
        while self._read(0):
            pass
        self.screen.resize(columns, rows)
        _set_size(self._master, columns, rows)

    def end(self, timeout_s: float = 120) -> int:
        """Read the output until the command ends. Return its exit code."""
        deadline = time.monotonic() + timeout_s
        while self._read(max(deadline - time.monotonic(), 0)):
            pass
        return self.process.wait(max(deadline - time.monotonic(), 1))

    def echoes(self) -> bool:
        """Return whether the terminal is as shells want it."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def _read(self, seconds: float) -> bool:
        """Read available output. Return False if the command has ended or is silent."""
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux's word for the end of a terminal
            return False
        # A character or a sequence may come in two parts.
        whole, self._rest = _split(self._rest + data)
        self.screen.feed(whole)
        return bool(data)


def _split(data: bytes) -> tuple[str, bytes]:
    for rest in range(min(len(data), 16)):
        head = data[: len(data) - rest]
        try:
            text = head.decode()
        except UnicodeDecodeError:
            continue
        open_at = text.rfind("\x1b")
        if open_at < 0 or _SEQUENCE.match(text, open_at):
            return text, data[len(data) - rest :]
    return "", data


def _set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def in_terminal(
    command: Sequence[str], env: Mapping[str, str], columns: int = 80, rows: int = 24
) -> Iterator[Session]:
    """Run a command in a terminal of this size; it is killed if it does not end by itself."""
    master, slave = pty.openpty()
    _set_size(master, columns, rows)
    process = subprocess.Popen(
        command,
        env={**env, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    try:
        yield Session(process, master, Screen(columns, rows))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(master)


def _take_terminal() -> None:
    """Make this terminal the controlling one, so that Ctrl-C and its size reach the command.

    Shells let background processes ignore both signals."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
