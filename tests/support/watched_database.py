"""A front end for PostgreSQL that asks the test before it forwards each statement."""

import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from tests.support.database_front import FrontServer, database_front

Lets = Callable[[str], bool]  # whether a "statement" or "commit" may continue
# First bytes of protocol messages that run statements: bound statements, or texts.
_RUNS = (b"B", b"E", b"Q")
_FLUSH = b"H\0\0\0\4"  # the next message runs the bound statement
_PREPARES = (b"P", b"Q")  # with the text of a statement


def watched_database(database_url: str, lets: Lets) -> AbstractContextManager[str]:
    """Put a front end before a database, and yield its URL.

    A refused statement ends its connection, as the end of its process does."""
    return database_front(database_url, _Handler, lets)


class _Handler(socketserver.BaseRequestHandler):
    server: FrontServer

    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answered = True
        with socket.socket(socket.AF_UNIX) as database, suppress(OSError):
            database.connect(self.server.behind)
            back = threading.Thread(target=self._carry_back, args=(database,), daemon=True)
            back.start()
            with suppress(OSError):  # a process that is killed may leave an answer unread
                self._carry(database)
            # Forwarded data arrives: PostgreSQL runs no further statement if it cannot answer.
            database.shutdown(socket.SHUT_WR)
            back.join(10)

    def _carry(self, database: socket.socket) -> None:
        is_commit = False
        while data := self.request.recv(1 << 20):
            # Data before an answer is the rest of the same message.
            kind = data[:1] if self._answered else b""
            if kind in _PREPARES:
                is_commit = b"commit\0" in data[:16].lower()
            runs = kind in _RUNS and not data.endswith(_FLUSH)
            if runs and not self.server.judge("commit" if is_commit else "statement"):
                return
            self._answered = False
            database.sendall(data)

    def _carry_back(self, database: socket.socket) -> None:
        with suppress(OSError):  # it resets the connection where it ended before it had read all
            while data := database.recv(1 << 20):
                self._answered = True
                with suppress(OSError):
                    self.request.sendall(data)
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)
