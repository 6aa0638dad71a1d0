"""Terminals for browsers: shells of this task behind a port that the cluster proxies for permitted users.

A session stays open for some time after its connection ended. A browser can continue it by name.
"""

import contextlib
import hmac
import os
import socket
import threading
from typing import Dict, Optional, Tuple

from determined.exec import _serve
from determined.exec._terminal_connection import Connection
from determined.exec._terminal_session import Session, window_size

_KEPT_S = 600.0  # the time for which a session waits for its browser
_MOST_SESSIONS = 32
_MOST_GREETING = 64  # connections that did not send their token yet


def take_settings() -> Optional[Tuple[int, str]]:
    """Return the port and token. Remove the token from the environment, because every program would inherit it."""
    port, token = os.environ.pop("TERMINAL_PORT", ""), os.environ.pop("DET_TERMINAL_TOKEN", "")
    return (int(port), token) if port and token else None


def serve(port: int, token: str) -> Optional["Terminals"]:
    """Serve terminals in threads. If the port is in use, log that and return None; the task works without them."""
    try:
        server = socket.create_server((_serve.host(), port), backlog=16)
    except OSError as e:
        _serve.say(f"no terminals in browsers: port {port} cannot be used ({e.strerror or e})")
        return None
    terminals = Terminals(server, token)
    threading.Thread(target=terminals.run, name="terminals", daemon=True).start()
    return terminals


class Terminals:
    """The server of terminals. It accepts connections and continues their sessions."""

    def __init__(self, server: socket.socket, token: str, kept_s: float = _KEPT_S) -> None:
        self._server, self._token, self._kept_s = server, token, kept_s
        self._lock = threading.Lock()
        self._greeting = threading.BoundedSemaphore(_MOST_GREETING)
        self._sessions: Dict[str, Session] = {}

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
        """Stop accepting connections and hang up every session."""
        # `close` alone does not wake the accepting thread.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.hang_up()

    def _talk(self, accepted: socket.socket) -> None:
        # JSON with huge numbers raises OverflowError, and deeply nested JSON raises RecursionError.
        expected_errors = (OSError, ValueError, TypeError, EOFError, OverflowError, RecursionError)
        with contextlib.suppress(*expected_errors), accepted:
            try:
                connection = Connection(accepted)
                hello = connection.greeting()
            finally:
                self._greeting.release()
            if not hmac.compare_digest(str(hello.get("token", "")).encode(), self._token.encode()):
                connection.send(b"r", b"the token is not that of this task")
                return
            size = window_size(hello.get("size"))
            try:
                session = self._session(str(hello.get("session", ""))[:64])
            except OSError as e:
                connection.send(b"r", f"no shell can be started: {e}".encode())
                return
            session.resize(size)
            session.attend(connection)

    def _session(self, name: str) -> Session:
        with self._lock:
            session = self._sessions.get(name)
            if session is not None:
                return session
            if len(self._sessions) >= _MOST_SESSIONS:
                raise OSError(f"this task has {_MOST_SESSIONS} terminals, and may have no more")
            session = self._sessions[name] = Session(self._kept_s)
        threading.Thread(target=self._read, args=(name, session), daemon=True).start()
        return session

    def _read(self, name: str, session: Session) -> None:
        try:
            session.pump()
        finally:
            with self._lock:
                self._sessions.pop(name, None)
            session.end()
