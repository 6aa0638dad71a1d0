"""A shell of this task in a pseudo-terminal, which outlives the browser that looks at it for a while."""

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

_HISTORY = 256 * 1024  # what is shown to a browser that comes back
_READ = 32 * 1024
_DRAINED = 128 * 1024  # more than a terminal holds of what its shell has written
_DRAIN_MS = 100
_OWN_NAMES = ("TERMINAL_PORT", "DET_TERMINAL_TOKEN", "OLDPWD", "SHLVL", "_")


class Session:
    """A shell in a pseudo-terminal, with the last of its output and the connection that looks at it."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._history = bytearray()
        self._connection: Optional[Connection] = None
        self._waiting: Optional[threading.Timer] = None
        self._is_over = False
        self._ended, self._ends = os.pipe()  # closed at its other side once the shell has ended
        try:
            self._master, self._process = _started()
        except BaseException:
            os.close(self._ended)
            os.close(self._ends)
            raise

    def attend(self, connection: Connection) -> None:
        """Carry a browser's input until it goes; another window that showed this session is told."""
        with connection.sending:
            with self._lock:
                before, self._connection = self._connection, connection
                history, is_over = bytes(self._history), self._is_over
                if self._waiting is not None:
                    self._waiting.cancel()
            # Output that comes meanwhile waits for `sending`.
            connection.send_held(b"o", history)
        if is_over:
            self._tell_end(connection)
        if before is not None:
            before.dismiss()
        try:
            while True:
                self._take(connection, *connection.receive())
        finally:
            connection.give_up()
            self._leave(connection)

    def _take(self, connection: Connection, kind: bytes, body: bytes) -> None:
        if kind == b"i":
            self._write(connection, body)
        elif kind == b"s":
            self.resize(window_size(json.loads(body)))
        elif kind == b"a":
            connection.shown(int(body))

    def _write(self, connection: Connection, left: bytes) -> None:
        while left and self._connection is connection:
            _wait((self._master,), select.POLLOUT, 1_000)
            with self._lock:
                if self._is_over:
                    return
                with contextlib.suppress(BlockingIOError):
                    left = left[os.write(self._master, left[:512]) :]

    def resize(self, size: Tuple[int, int]) -> None:
        columns, rows = size
        with self._lock:
            if not self._is_over:
                packed = struct.pack("HHHH", rows, columns, 0, 0)
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, packed)

    def pump(self) -> None:
        """Pass output on until the shell has ended, also where what it started goes on."""
        threading.Thread(target=self._await_end, daemon=True).start()
        while not _is_ready(self._ended, 0):
            connection = self._connection
            if connection is not None:
                connection.wait_for_room()
            _wait((self._master, self._ended), select.POLLIN, None)
            if self._pass_on() is None:
                return
        self._drain()

    def _await_end(self) -> None:
        self._process.wait()
        os.close(self._ends)

    def _drain(self) -> None:
        """Pass on what the shell wrote before it ended; its background processes may write forever."""
        left = _DRAINED
        while left > 0 and _is_ready(self._master, _DRAIN_MS):
            count = self._pass_on()
            if count is None:
                return
            left -= count

    def _pass_on(self) -> Optional[int]:
        """Pass some output on and return how much; None once nothing has the terminal open."""
        try:
            part = os.read(self._master, _READ)
        except BlockingIOError:
            return 0
        except OSError:  # how Linux tells that nothing has the terminal open any more
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
        """Tell how the shell ended, after all of its output."""
        self._process.wait()
        with self._lock:
            self._is_over = True
            connection = self._connection
            if self._waiting is not None:
                self._waiting.cancel()
            os.close(self._master)
            os.close(self._ended)
        if connection is not None:
            self._tell_end(connection)

    def _tell_end(self, connection: Connection) -> None:
        code = self._process.returncode
        connection.send(b"x", str(code if code >= 0 else 128 - code).encode())
        connection.give_up()

    def hang_up(self) -> None:
        """End the shell and its jobs as a terminal does that is closed; by force if it takes no notice."""
        for number in (signal.SIGHUP, signal.SIGKILL):
            if self._process.returncode is not None:
                return
            for pid in _pids_of(self._process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(3)

    def _leave(self, connection: Connection) -> None:
        """Keep the shell for a while without a browser."""
        with self._lock:
            if self._connection is not connection:
                return
            self._connection = None
            if not self._is_over:
                self._waiting = threading.Timer(self._kept_s, self.hang_up)
                self._waiting.daemon = True
                self._waiting.start()


def _wait(fds: Iterable[int], event: int, timeout_ms: Optional[int]) -> bool:
    """Return whether one of the files became ready, or was closed at its other side, in time."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, event)
    return bool(poll.poll(timeout_ms))


def _is_ready(fd: int, timeout_ms: int) -> bool:
    return _wait((fd,), select.POLLIN, timeout_ms)


def window_size(given: Any) -> Tuple[int, int]:
    """Return columns and rows of a window; raises ValueError, TypeError or OverflowError."""
    columns, rows = (min(max(int(n), 1), 1000) for n in given or (80, 24))
    return columns, rows


def _pids_of(session: int) -> List[int]:
    """Return the processes of a session of the system: a shell, and its jobs in all their groups."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(ValueError, OSError):
            if os.getsid(int(name)) == session:
                found.append(int(name))
    return found


def _started() -> Tuple[int, "subprocess.Popen[bytes]"]:
    """Start a shell that has a new pseudo-terminal, and return the other end of that."""
    master, terminal = os.openpty()
    try:
        path = os.ttyname(terminal)
        # A new session takes the first terminal that it opens for its own.
        command = ["/bin/sh", "-c", 'exec "$1" <>"$0" >&0 2>&0', path, _shell()]
        folder = os.environ.get("DET_WORKDIR", "")
        process = subprocess.Popen(
            command,
            # Until the shell has opened it by itself: a terminal that nobody has open tells its end.
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(os.environ),
            cwd=folder if os.path.isdir(folder) else None,
            start_new_session=True,
            preexec_fn=_hear_keys,
        )
        os.set_blocking(master, False)
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(terminal)
    return master, process


def _hear_keys() -> None:
    """Undo in a child what an agent that was started in the background lets its programs ignore: Ctrl-C, for one."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


def _environment(env: Mapping[str, str]) -> Dict[str, str]:
    own = {name: value for name, value in env.items() if name not in _OWN_NAMES}
    own.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", "SHELL": _shell()})
    own.setdefault("LANG", "C.UTF-8")
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(os.geteuid())
        own.update({"USER": user.pw_name, "LOGNAME": user.pw_name})
        own.setdefault("HOME", user.pw_dir)
    return own


def _shell() -> str:
    """Return the shell of the task's user; the usual one where that lets nobody in."""
    wanted = [os.environ.get("SHELL", "")]
    with contextlib.suppress(KeyError):
        wanted.append(pwd.getpwuid(os.geteuid()).pw_shell)
    for shell in (*wanted, "/bin/bash"):
        refuses = os.path.basename(shell) in ("nologin", "false", "sync")
        if shell and not refuses and os.access(shell, os.X_OK):
            return shell
    return "/bin/sh"
