"""A web server for objects: ranges, entity tags and conditions, with faults that tests set."""

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass
class ObjectServer:
    """The objects by their paths, and faults. `gets` counts requests for bodies by path."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    gets: Counter[str] = field(default_factory=Counter)
    statuses: dict[str, int] = field(default_factory=dict)  # answered instead of the object
    redirects: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, int] = field(default_factory=dict)  # how many answers end in the middle
    before_get: Callable[[str], None] = lambda path: None
    knows_ranges: bool = True
    has_versions: bool = True

    def manifest(self, files: Mapping[str, bytes], path: str = "/set/manifest.json") -> str:
        """Add files and their manifest; return its address."""
        entries = []
        for name, content in files.items():
            self.objects[f"{path.rpartition('/')[0]}/{name}"] = content
            digest = hashlib.sha256(content).hexdigest()
            entries.append({"path": name, "size": len(content), "sha256": digest})
        self.objects[path] = json.dumps({"files": entries}).encode()
        return self.url + path


class _Handler(BaseHTTPRequestHandler):
    server_of_test: ObjectServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server_of_test.gets[path] += 1
        self.server_of_test.before_get(path)
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        server, path = self.server_of_test, self.path.partition("?")[0]
        body = server.objects.get(path)
        if path in server.redirects:
            return self._send(302, b"", {"Location": server.redirects[path]})
        if path in server.statuses or body is None:
            return self._send(server.statuses.get(path, 404), b"")
        tag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        headers = {"ETag": tag} if server.has_versions else {}
        if self.headers.get("If-Match", tag) != tag:
            return self._send(412, b"")
        wanted = _RANGE.fullmatch(self.headers.get("Range") or "")
        if wanted and server.knows_ranges:
            start, end = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(body)}"
            return self._send(206, body[start : end + 1], headers)
        return self._send(200, body, headers, with_body=with_body)

    def _send(
        self, status: int, body: bytes, headers: Mapping[str, str] = {}, *, with_body: bool = True
    ) -> None:
        server, path = self.server_of_test, self.path.partition("?")[0]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body and server.cuts.get(path):
            server.cuts[path] -= 1
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif with_body:
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that leave."""


@contextmanager
def object_server(address: str = "127.0.0.1") -> Iterator[ObjectServer]:
    objects = ObjectServer()
    handler = type("Handler", (_Handler,), {"server_of_test": objects})
    server = _Server((address, 0), handler)
    objects.url = f"http://{address}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield objects
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
