"""A proxy of one database that cuts connections after some bytes, as broken networks do."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

_BUFFER = 1 << 16


@dataclass
class CutConnections:
    """Forwards connections. After `remaining` bytes in either direction it closes them, and refuses new ones."""

    server: socket.socket
    upstream: str  # path of the server's socket
    remaining: int | None = None  # None: never cuts
    _open: list[socket.socket] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            if self.remaining is not None and self.remaining <= 0:
                client.close()
                continue
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(self.upstream)
            self._open += [client, upstream]
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BUFFER):
                if self._is_cut(len(data)):
                    break
                target.sendall(data)
        self._shut(source, target)

    def _is_cut(self, size: int) -> bool:
        with self._lock:
            if self.remaining is None:
                return False
            self.remaining -= size
            return self.remaining <= 0

    def close(self) -> None:
        self.server.close()
        self._shut(*self._open)

    @staticmethod
    def _shut(*sockets: socket.socket) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextlib.contextmanager
def cutting(url: str) -> Iterator[tuple[CutConnections, str]]:
    """Yield a proxy of a database at a socket, and the URL of the database through the proxy."""
    parts = urlsplit(url)
    (upstream,) = parse_qs(parts.query)["unix_sock"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = CutConnections(server, upstream)
        thread = threading.Thread(target=proxy.serve, daemon=True)
        thread.start()
        try:
            yield proxy, f"postgresql://postgres@127.0.0.1:{server.getsockname()[1]}{parts.path}"
        finally:
            proxy.close()
