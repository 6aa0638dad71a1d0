"""A registry with an image that has one large layer, for pulls over several connections."""

import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"


class LargeRegistry:
    """Serves one image. A test may take away ranges, break some of them, or demand a token.

    Left out: redirects of blobs to an object store, and expiry of tokens.
    """

    def __init__(self, layer_bytes: int, *, index: bool = False) -> None:
        self.ranges, self.login = True, ""  # without ranges, every answer is the whole blob
        self.broken_ranges = 0  # so many ranges get half of their bytes
        self.requests: list[tuple[str, str]] = []  # the last part of the path, and the range
        layer = _layer(layer_bytes)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
            }
        ).encode()
        self.layer = digest(layer)
        self.blobs = {digest(blob): blob for blob in (layer, config)}
        manifest = _manifest(config, layer)
        self.manifests = {digest(manifest): (MANIFEST, manifest)}
        self.top = digest(manifest)
        if index:
            self.top = self._add_index(manifest)
        handler = type("Bound", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.image = f"{self.host}/team/large"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _add_index(self, manifest: bytes) -> str:
        platforms = (
            {"os": "linux", "architecture": "s390x"},
            {"os": "linux", "architecture": "amd64"},
        )
        entries = [
            {
                "mediaType": MANIFEST,
                "size": len(manifest),
                "digest": digest(manifest),
                "platform": p,
            }
            for p in platforms
        ]
        entries[0]["digest"] = digest(b"another platform")
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
        self.manifests[digest(index)] = (INDEX, index)
        return digest(index)

    def ranges_of_layer(self) -> list[str]:
        return [asked for name, asked in self.requests if name == self.layer]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def large_registry(layer_bytes: int, *, index: bool = False) -> Iterator[LargeRegistry]:
    registry = LargeRegistry(layer_bytes, index=index)
    try:
        yield registry
    finally:
        registry.close()


class _Handler(BaseHTTPRequestHandler):
    registry: LargeRegistry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        registry, asked = self.registry, self.headers.get("Range", "")
        kind, _, name = self.path.rpartition("/")
        registry.requests.append((name, asked))
        if self.path.startswith("/token"):
            self._send(200, b'{"token": "t"}', {})
        elif registry.login and self.headers.get("Authorization") != "Bearer t":
            realm = f'Bearer realm="http://{registry.host}/token",service="s"'
            self._send(401, b"{}", {"WWW-Authenticate": realm})
        elif self.path == "/v2/":
            self._send(200, b"{}", {})
        elif kind.endswith("/manifests"):
            key = registry.top if name == "latest" else name
            media_type, content = registry.manifests[key]
            headers = {"Content-Type": media_type, "Docker-Content-Digest": key}
            self._send(200, content, headers)
        else:
            self._send_blob(registry.blobs[name], asked)

    do_HEAD = do_GET

    def _send_blob(self, blob: bytes, asked: str) -> None:
        if not asked or not self.registry.ranges:
            self._send(200, blob, {})
            return
        first, last = asked.removeprefix("bytes=").split("-")
        start, end = int(first), min(int(last) + 1, len(blob))
        part = blob[start:end]
        if self.registry.broken_ranges and start:
            self.registry.broken_ranges -= 1
            part = part[: len(part) // 2]
        self._send(206, part, {"Content-Range": f"bytes {start}-{end - 1}/{len(blob)}"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: tests read the messages of the agent."""


def digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _layer(size: int) -> bytes:
    """Return a new tar, because the engine keeps known layers. Without compression, its size is known."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("large")
        entry.size = size
        tar.addfile(entry, io.BytesIO(os.urandom(size)))
    return buffer.getvalue()


def _manifest(config: bytes, layer: bytes) -> bytes:
    kinds = ((config, "container.image.v1+json"), (layer, "image.rootfs.diff.tar"))
    parts = [
        {"mediaType": f"application/vnd.docker.{kind}", "size": len(blob), "digest": digest(blob)}
        for blob, kind in kinds
    ]
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": parts[0], "layers": parts[1:]}
    return json.dumps(document).encode()
