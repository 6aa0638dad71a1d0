"""A front before PostgreSQL that pauses and wakes as Aurora does: who connects meanwhile waits, or is refused."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.database_front import FrontServer, database_front

STARTING_UP = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
# Aurora sends this during some resumes: its access rules are not loaded yet.
NOT_ADMITTED = (
    b'SFATAL\0VFATAL\0C28000\0Mno pg_hba.conf entry for host "10.60.0.9", user "determined",'
    b' database "determined", SSL encryption\0\0'
)
WRONG_PASSWORD = (
    b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "determined"\0\0'
)


@dataclass
class SleepingDatabase:
    """Asleep until `awake` is set. Silent meanwhile, or refusing where `refuses` says so."""

    url: str
    awake: threading.Event = field(default_factory=threading.Event)
    refuses: bool = False
    refusal: bytes = STARTING_UP
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    calls: int = 0

    def wake_at_call(self, number: int) -> None:
        """Wake when so many connections have asked from now on."""

        while self.called.acquire(blocking=False):
            pass

        def wait() -> None:
            for _ in range(number):
                self.called.acquire(timeout=60)
            self.awake.set()

        threading.Thread(target=wait, daemon=True).start()

    def note_call(self) -> None:
        self.calls += 1
        self.called.release()


@contextmanager
def sleeping_database(database_url: str) -> Iterator[SleepingDatabase]:
    """Put a front before the database of a URL that names a socket of this machine."""
    front = SleepingDatabase("")
    with database_front(database_url, _Handler, front) as front.url:
        try:
            yield front
        finally:
            front.awake.set()


class _Handler(socketserver.BaseRequestHandler):
    server: FrontServer

    def handle(self) -> None:
        front: SleepingDatabase = self.server.judge
        front.note_call()
        if front.refuses and not front.awake.is_set():
            self._refuse()
        else:
            front.awake.wait(60)
            self._carry()

    def _carry(self) -> None:
        with socket.socket(socket.AF_UNIX) as database:
            database.connect(self.server.behind)
            back = threading.Thread(target=_copy, args=(database, self.request), daemon=True)
            back.start()
            _copy(self.request, database)
            back.join(10)

    def _refuse(self) -> None:
        """Answer like PostgreSQL: refuse TLS, then send an error after the startup message."""
        self.request.recv(4096)
        self.request.sendall(b"N")
        self.request.recv(4096)
        refusal = self.server.judge.refusal
        size = (len(refusal) + 4).to_bytes(4, "big")
        self.request.sendall(b"E" + size + refusal)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
