"""A registry for the benchmark of pulls: `python -m bench.pull_registry FOLDER ADDRESS PORT DELAY_S CONNECTION_MB_S`.

It serves one folder, with ranges, under every name. Each response begins after a delay. A rate of a connection above 0
makes it as slow as single downloads from an object store are.
"""

import hashlib
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_BLOCK = 256 * 1024


class Handler(BaseHTTPRequestHandler):
    folder: Path
    delay_s: float
    bytes_s: float
    protocol_version = "HTTP/1.1"
    default_request_version = (
        "HTTP/1.1"  # a client that tries TLS gets an answer that it understands
    )

    def do_GET(self) -> None:
        time.sleep(self.delay_s)
        kind, _, name = self.path.rpartition("/")
        if self.path == "/v2/":
            self._head(200, 2, {})
            self._body(b"{}")
        elif kind.endswith("/manifests"):
            self._send_manifest(name)
        elif (self.folder / name).is_file():
            self._send_blob(self.folder / name)
        else:
            self._head(404, 0, {})

    do_HEAD = do_GET

    def _send_manifest(self, name: str) -> None:
        path = self.folder / ("manifest.json" if not name.startswith("sha256:") else name)
        content = (path if path.is_file() else self.folder / "manifest.json").read_bytes()
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        kind = str(json.loads(content)["mediaType"])
        self._head(200, len(content), {"Content-Type": kind, "Docker-Content-Digest": digest})
        self._body(content)

    def _send_blob(self, path: Path) -> None:
        size = path.stat().st_size
        start, end, status, headers = 0, size, 200, {"Accept-Ranges": "bytes"}
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes="):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(size, int(last or size - 1) + 1), 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._head(status, end - start, {**headers, "Content-Type": "application/octet-stream"})
        if self.command == "HEAD":
            return
        self.wfile.flush()
        begun = time.monotonic()
        with path.open("rb") as file:
            position = start
            while position < end:
                count = min(_BLOCK, end - position)
                self.connection.sendfile(file, position, count)
                position += count
                if self.bytes_s:
                    early_s = (position - start) / self.bytes_s - (time.monotonic() - begun)
                    time.sleep(max(0.0, early_s))

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def _body(self, content: bytes) -> None:
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: standard output carries the figures."""


def main() -> None:
    folder, address, port, delay_s, rate_mb_s = sys.argv[1:]
    Handler.folder, Handler.delay_s = Path(folder), float(delay_s)
    Handler.bytes_s = float(rate_mb_s) * 1e6
    server = ThreadingHTTPServer((address, int(port)), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
