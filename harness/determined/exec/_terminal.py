"""Terminals for browsers: shells of this task behind a port that the cluster carries to those who may open it.

Both sides send frames: a letter, the length of the rest as four bytes, and the rest. A browser begins with `h`, JSON
with the token, the name of its session and the size of its window; then `i` is input, `s` a new size, `a` how many
bytes of output it has shown. It gets `o`, output; `x`, the exit status; `t`, another window took the session; `r`, a
refusal.

A session whose connection ended goes on for a while, and is continued by the browser that names it again.
"""

import contextlib
import fcntl
import hmac
import json
import os
import pwd
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from determined.exec import _serve

_KEPT_S = 600.0  # how long a session waits for its browser
_HELLO_S = 10.0
_STUCK_S = 60
_MOST_SESSIONS = 32
_MOST_GREETING = 64  # connections whose token is not known yet
_LONGEST_FRAME = 1 << 20
_LONGEST_HELLO = 4096
_HISTORY = 256 * 1024  # what is shown to a browser that comes back
_WINDOW = 512 * 1024  # output that a browser has not shown yet
_READ = 32 * 1024
_DRAINED = 128 * 1024  # more than a terminal holds of what its shell has written
_DRAIN_MS = 100
_HEAD = struct.Struct(">cI")
_OWN_NAMES = ("TERMINAL_PORT", "DET_TERMINAL_TOKEN", "OLDPWD", "SHLVL", "_")


def take_settings() -> Optional[Tuple[int, str]]:
    """Return port and token, and remove the token from what every program of the task is told."""
    port, token = os.environ.pop("TERMINAL_PORT", ""), os.environ.pop("DET_TERMINAL_TOKEN", "")
    return (int(port), token) if port and token else None


def serve(port: int, token: str) -> Optional["Terminals"]:
    """Serve terminals in threads; without them where the port is taken, as the rest of the task works."""
    try:
        server = socket.create_server((_serve.host(), port), backlog=16)
    except OSError as e:
        _serve.say(f"no terminals in browsers: port {port} cannot be used ({e.strerror or e})")
        return None
    terminals = Terminals(server, token)
    threading.Thread(target=terminals.run, name="terminals", daemon=True).start()
    return terminals


class Terminals:
    """Takes connections, and knows which session each continues."""

    def __init__(self, server: socket.socket, token: str, kept_s: float = _KEPT_S) -> None:
        self._server, self._token, self._kept_s = server, token, kept_s
        self._lock = threading.Lock()
        self._greeting = threading.BoundedSemaphore(_MOST_GREETING)
        self._sessions: Dict[str, _Session] = {}

    def run(self) -> None:
        while True:
            try:
                accepted, _ = self._server.accept()
            except OSError:
                return
            if self._greeting.acquire(blocking=False):
                threading.Thread(target=self._talk, args=(accepted,), daemon=True).start()
            else:
                accepted.close()

    def close(self) -> None:
        """Take no more connections, and hang up on every session."""
        # Alone, `close` does not wake the thread that waits for connections.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            left = list(self._sessions.values())
        for session in left:
            session.hang_up()

    def _talk(self, accepted: socket.socket) -> None:
        # OverflowError and RecursionError: JSON of huge numbers, and JSON nested deeply.
        broken = (OSError, ValueError, TypeError, EOFError, OverflowError, RecursionError)
        with contextlib.suppress(*broken), accepted:
            try:
                connection = _Connection(accepted)
                hello = connection.greeting()
            finally:
                self._greeting.release()
            if not hmac.compare_digest(str(hello.get("token", "")).encode(), self._token.encode()):
                connection.send(b"r", b"the token is not that of this task")
                return
            size = _size(hello.get("size"))
            try:
                session = self._session(str(hello.get("session", ""))[:64])
            except OSError as e:
                connection.send(b"r", f"no shell can be started: {e}".encode())
                return
            session.resize(size)
            session.attend(connection)

    def _session(self, name: str) -> "_Session":
        with self._lock:
            found = self._sessions.get(name)
            if found is not None:
                return found
            if len(self._sessions) >= _MOST_SESSIONS:
                raise OSError(f"this task has {_MOST_SESSIONS} terminals, and may have no more")
            made = self._sessions[name] = _Session(self._kept_s)
        threading.Thread(target=self._read, args=(name, made), daemon=True).start()
        return made

    def _read(self, name: str, session: "_Session") -> None:
        try:
            session.pump()
        finally:
            with self._lock:
                self._sessions.pop(name, None)
            session.end()


class _Connection:
    """Frames over a socket, and how much of the output the browser has shown."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # A browser that takes nothing for so long is gone.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _STUCK_S, 0))
        self.sending = threading.Lock()
        self._room = threading.Condition()
        self._unshown = 0
        self._is_over = False

    def greeting(self) -> Dict[str, Any]:
        """Return what the browser says first, which has to be short and to be complete in time."""
        kind, body = self.receive(_LONGEST_HELLO, time.monotonic() + _HELLO_S)
        self._sock.settimeout(None)
        return dict(json.loads(body)) if kind == b"h" else {}

    def receive(
        self, longest: int = _LONGEST_FRAME, deadline: Optional[float] = None
    ) -> Tuple[bytes, bytes]:
        """Return the next frame.

        Raises EOFError at the end, ValueError for what is no frame, OSError after the deadline.
        """
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if length > longest:
            raise ValueError("too long a frame")
        return kind, self._exactly(length, deadline)

    def _exactly(self, count: int, deadline: Optional[float]) -> bytes:
        got = bytearray()
        while len(got) < count:
            if deadline is not None:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                self._sock.settimeout(left_s)
            part = self._sock.recv(count - len(got))
            if not part:
                raise EOFError
            got += part
        return bytes(got)

    def send(self, kind: bytes, body: bytes) -> None:
        with self.sending:
            self.send_held(kind, body)

    def send_held(self, kind: bytes, body: bytes) -> None:
        """Send by a caller that holds `sending`; where that fails, whoever receives is told the end."""
        if kind == b"o":
            with self._room:
                self._unshown += len(body)
        try:
            self._sock.sendall(_HEAD.pack(kind, len(body)) + body)
        except OSError:
            self.give_up()

    def dismiss(self) -> None:
        """Tell the browser, if it takes anything just now, that another window goes on."""
        if self.sending.acquire(timeout=1):
            try:
                self.send_held(b"t", b"")
            finally:
                self.sending.release()
        self.give_up()

    def shown(self, count: int) -> None:
        with self._room:
            self._unshown -= count
            self._room.notify_all()

    def wait_for_room(self) -> None:
        """Wait until the browser keeps up, or is gone."""
        with self._room:
            self._room.wait_for(lambda: self._is_over or self._unshown < _WINDOW)

    def give_up(self) -> None:
        with self._room:
            self._is_over = True
            self._room.notify_all()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


class _Session:
    """A shell in a pseudo-terminal, with the last of its output and the connection that looks at it."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._history = bytearray()
        self._connection: Optional[_Connection] = None
        self._waiting: Optional[threading.Timer] = None
        self._is_over = False
        self._ended, self._ends = os.pipe()  # closed at its other side once the shell has ended
        try:
            self._master, self._process = _started()
        except BaseException:
            os.close(self._ended)
            os.close(self._ends)
            raise

    def attend(self, connection: _Connection) -> None:
        """Carry a browser's input until it goes; another window that looks at this session is told."""
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

    def _take(self, connection: _Connection, kind: bytes, body: bytes) -> None:
        if kind == b"i":
            self._write(connection, body)
        elif kind == b"s":
            self.resize(_size(json.loads(body)))
        elif kind == b"a":
            connection.shown(int(body))

    def _write(self, connection: _Connection, left: bytes) -> None:
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

    def _tell_end(self, connection: _Connection) -> None:
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

    def _leave(self, connection: _Connection) -> None:
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


def _size(given: Any) -> Tuple[int, int]:
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
