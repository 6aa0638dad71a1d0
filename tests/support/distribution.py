"""The CloudFront distribution of a cluster according to the stack: the origin of each path, and its headers."""

import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.threaded import serving

MODULE = Path(__file__).parents[2] / "infra/terraform/modules/aws/relay/main.tf"
VIEWER = "203.0.113.9"
# Where a function of CloudFront adds one of these, CloudFront answers 502 instead of the origin.
_DISALLOWED = re.compile(
    r"connection|expect|keep-alive|proxy-.*|trailer|upgrade|x-accel-.*|x-amz-cf-.*|x-amzn-.*|x-cache|x-edge-.*"
    r"|x-forwarded-proto|x-real-ip"
)
_SETS = re.compile(r"request\.headers\['([a-z-]+)'\] = \{ value: (.+?) \};")
_RELAYED = re.compile(r"paths_of_relay += \[(.*)\]")
_BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def distribution(api: str, relay: str, secret: str, port: int) -> Iterator[str]:
    """Serve the one address of a cluster before its API and its relay; yield it."""
    server = _Server(("127.0.0.1", port), _Carrier)
    text = MODULE.read_text()
    match = _RELAYED.search(text)
    assert match
    server.paths_of_relay = re.findall(r'"(.+?)"', match[1])
    server.sets = dict(_SETS.findall(text))
    server.origins = {"api": urlsplit(api).netloc, "relay": urlsplit(relay).netloc}
    server.secret = secret
    with serving(server) as address:
        yield address


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    paths_of_relay: list[str]
    sets: dict[str, str]
    origins: dict[str, str]
    secret: str

    def origin_of(self, path: str) -> str:
        relayed = any(fnmatchcase(path, pattern) for pattern in self.paths_of_relay)
        return "relay" if relayed else "api"


class _Carrier(socketserver.StreamRequestHandler):
    """Carry one request, because the next may be for the other origin."""

    server: _Server

    def handle(self) -> None:
        head = self.rfile.readline()
        headers = dict(self._headers())
        origin = self.server.origin_of(head.split()[1].decode().partition("?")[0])
        told = self._told(origin, headers)
        if told is None:
            self.wfile.write(_BAD_GATEWAY)
            return
        host, _, port = self.server.origins[origin].partition(":")
        with socket.create_connection((host, int(port))) as onwards, suppress(OSError):
            lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
            onwards.sendall(head + f"{lines}\r\n".encode("latin-1"))
            threading.Thread(target=self._carry_body, args=(onwards,), daemon=True).start()
            while piece := onwards.recv(1 << 16):
                self.wfile.write(piece)

    def _headers(self) -> Iterator[tuple[str, str]]:
        while line := self.rfile.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            yield name.lower(), value.strip()

    def _told(self, origin: str, headers: dict[str, str]) -> dict[str, str] | None:
        """Return the request for an origin, or None if the stack's function refuses it."""
        if any(_DISALLOWED.fullmatch(name) for name in self.server.sets):
            return None
        meant = {"event.viewer.ip": VIEWER, "request.headers.host.value": headers["host"]}
        told = {**headers, **{name: meant[value] for name, value in self.server.sets.items()}}
        told["x-forwarded-for"] = VIEWER
        if "upgrade" not in told:
            told["connection"] = "close"
        if origin == "api":  # which CloudFront asks by its own name, and proves to be CloudFront
            told |= {"host": self.server.origins[origin], "x-det-front": self.server.secret}
        return told

    def _carry_body(self, onwards: socket.socket) -> None:
        # `handle` may return and close the stream while this thread reads, which is a ValueError.
        with suppress(OSError, ValueError):
            while piece := self.rfile.read1(1 << 16):
                onwards.sendall(piece)
            onwards.shutdown(socket.SHUT_WR)
