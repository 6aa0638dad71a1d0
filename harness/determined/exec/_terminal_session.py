"""A shell of this task in a pseudo-terminal. It outlives its browser for some time."""

import contextlib
import fcntl
import json
import os
import pwd
import select
import signal
import struct
import subprocess
import termios
import threading
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from determined.exec._terminal_connection import Connection

_HISTORY = 256 * 1024  # output that a returning browser receives
_READ = 32 * 1024
_DRAINED = 128 * 1024  # more than a terminal buffers of its shell's output
_DRAIN_MS = 100
_OWN_NAMES = ("TERMINAL_PORT", "DET_TERMINAL_TOKEN", "OLDPWD", "SHLVL", "_")


class Session:
    """A shell in a pseudo-terminal, its latest output, and the connection of its browser."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._history = bytearray()
        self._connection: Optional[Connection] = None
        self._waiting: Optional[threading.Timer] = None
        self._is_over = False
        self._ended, self._ends = os.pipe()  # `_ends` is closed when the shell has ended
        try:
            self._master, self._process = _start_shell()
        except BaseException:
            os.close(self._ended)
            os.close(self._ends)
            raise

    def attend(self, connection: Connection) -> None:
        """Process a browser's input until its connection ends. Dismiss another window that showed this session."""
        with connection.sending:
            with self._lock:
                before, self._connection = self._connection, connection
                history, is_over = bytes(self._history), self._is_over
                if self._waiting is not None:
                    self._waiting.cancel()
            # New output waits for `sending`.
            connection.send_held(b"o", history)
        if is_over:
            self._send_exit_status(connection)
        if before is not None:
            before.dismiss()
        try:
            while True:
                self._handle(connection, *connection.receive())
        finally:
            connection.give_up()
            self._leave(connection)

    def _handle(self, connection: Connection, kind: bytes, body: bytes) -> None:
        if kind == b"i":
            self._write(connection, body)
        elif kind == b"s":
            self.resize(window_size(json.loads(body)))
        elif kind == b"a":
            connection.shown(int(body))

    def _write(self, connection: Connection, data: bytes) -> None:
        while data and self._connection is connection:
            _wait((self._master,), select.POLLOUT, 1_000)
            with self._lock:
                if self._is_over:
                    return
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._master, data[:512]) :]

    def resize(self, size: Tuple[int, int]) -> None:
        columns, rows = size
        with self._lock:
            if not self._is_over:
                packed = struct.pack("HHHH", rows, columns, 0, 0)
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, packed)

    def pump(self) -> None:
        """Forward output until the shell has ended, even if its background processes continue."""
        threading.Thread(target=self._await_end, daemon=True).start()
        while not _is_ready(self._ended, 0):
            connection = self._connection
            if connection is not None:
                connection.wait_for_room()
            _wait((self._master, self._ended), select.POLLIN, None)
            if self._forward_output() is None:
                return
        self._drain()

    def _await_end(self) -> None:
        self._process.wait()
        os.close(self._ends)

    def _drain(self) -> None:
        """Forward the shell's last output. Its background processes may write forever, so there is a limit."""
        remaining = _DRAINED
        while remaining > 0 and _is_ready(self._master, _DRAIN_MS):
            count = self._forward_output()
            if count is None:
                return
            remaining -= count

    def _forward_output(self) -> Optional[int]:
        """Forward some output and return its length, or None if no process has the terminal open."""
        try:
            part = os.read(self._master, _READ)
        except BlockingIOError:
            return 0
        except OSError:  # Linux raises it when no process has the terminal open
            return None
        self._show(part)
        return len(part) or None

    def _show(self, part: bytes) -> None:
        with self._lock:
            self._history += part
            del self._history[:-_HISTORY]
            connection = self._connection
        if connection is not None:
            connection.send(b"o", part)

    def end(self) -> None:
        """Send the shell's exit status, after all of its output."""
        self._process.wait()
        with self._lock:
            self._is_over = True
            connection = self._connection
            if self._waiting is not None:
                self._waiting.cancel()
            os.close(self._master)
            os.close(self._ended)
        if connection is not None:
            self._send_exit_status(connection)

    def _send_exit_status(self, connection: Connection) -> None:
        code = self._process.returncode
        connection.send(b"x", str(code if code >= 0 else 128 - code).encode())
        connection.give_up()

    def hang_up(self) -> None:
        """Hang up the shell and its jobs, as closing a terminal does. Kill them if they do not exit."""
        for number in (signal.SIGHUP, signal.SIGKILL):
            if self._process.returncode is not None:
                return
            for pid in _pids_of(self._process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(3)

    def _leave(self, connection: Connection) -> None:
        """Keep the shell running for some time without a browser."""
        with self._lock:
            if self._connection is not connection:
                return
            self._connection = None
            if not self._is_over:
                self._waiting = threading.Timer(self._kept_s, self.hang_up)
                self._waiting.daemon = True
                self._waiting.start()


def _wait(fds: Iterable[int], event: int, timeout_ms: Optional[int]) -> bool:
    """Return whether a file became ready, or was closed at its other end, before the timeout."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, event)
    return bool(poll.poll(timeout_ms))


def _is_ready(fd: int, timeout_ms: int) -> bool:
    return _wait((fd,), select.POLLIN, timeout_ms)


def window_size(columns_and_rows: Any) -> Tuple[int, int]:
    """Return a window's columns and rows within limits. Raises ValueError, TypeError or OverflowError."""
    columns, rows = (min(max(int(n), 1), 1000) for n in columns_and_rows or (80, 24))
    return columns, rows


def _pids_of(session_id: int) -> List[int]:
    """Return the processes of a session of the operating system: a shell, and its jobs in all their groups."""
    pids = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(ValueError, OSError):
            if os.getsid(int(name)) == session_id:
                pids.append(int(name))
    return pids


def _start_shell() -> Tuple[int, "subprocess.Popen[bytes]"]:
    """Start a shell in a new pseudo-terminal. Return the terminal's master end and the process."""
    master, terminal = os.openpty()
    try:
        path = os.ttyname(terminal)
        # A new session makes the first terminal that it opens its controlling terminal.
        command = ["/bin/sh", "-c", 'exec "$1" <>"$0" >&0 2>&0', path, _shell()]
        folder = os.environ.get("DET_WORKDIR", "")
        process = subprocess.Popen(
            command,
            # Keeps the terminal open until the shell opens it. Otherwise reading from `master` would fail.
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(os.environ),
            cwd=folder if os.path.isdir(folder) else None,
            start_new_session=True,
            preexec_fn=_restore_key_signals,
        )
        os.set_blocking(master, False)
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(terminal)
    return master, process


def _restore_key_signals() -> None:
    """Restore default signal handling in a child. An agent started in the background ignores Ctrl-C, for example."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


def _environment(env: Mapping[str, str]) -> Dict[str, str]:
    variables = {name: value for name, value in env.items() if name not in _OWN_NAMES}
    variables.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", "SHELL": _shell()})
    variables.setdefault("LANG", "C.UTF-8")
    variables.setdefault("PROMPT_DIRTRIM", "1")  # the paths of working directories are long
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(os.geteuid())
        variables.update({"USER": user.pw_name, "LOGNAME": user.pw_name})
        variables.setdefault("HOME", user.pw_dir)
    return variables


def _shell() -> str:
    """Return the shell of the task's user. Ignore shells that only reject logins."""
    shells = [os.environ.get("SHELL", "")]
    with contextlib.suppress(KeyError):
        shells.append(pwd.getpwuid(os.geteuid()).pw_shell)
    for shell in (*shells, "/bin/bash"):
        refuses = os.path.basename(shell) in ("nologin", "false", "sync")
        if shell and not refuses and os.access(shell, os.X_OK):
            return shell
    return "/bin/sh"
