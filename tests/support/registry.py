"""A private image registry with one small image in it, for pulls without the internet."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class Registry:
    """Serves `name` on 127.0.0.1, where engines need no TLS, to one user with one password."""

    def __init__(self, user: str, password: str) -> None:
        self.auth = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.blobs: dict[str, bytes] = {}
        self.manifest = self._make_image()
        self.digest = _digest(self.manifest)
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (_Handler,), {"registry": self})
        )
        self._server.daemon_threads = True
        self.image = f"127.0.0.1:{self._server.server_address[1]}/team/private"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _make_image(self) -> bytes:
        layer = _tar_of("hello", b"from the registry\n")
        compressed = gzip.compress(layer, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        ).encode()
        self.blobs = {_digest(blob): blob for blob in (compressed, config)}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _reference(config, "application/vnd.docker.container.image.v1+json"),
            "layers": [_reference(compressed, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
        }
        return json.dumps(manifest).encode()


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind, _, name = self.path.rpartition("/")
        if self.headers["Authorization"] != self.registry.auth:
            self._send(401, b"{}", {"WWW-Authenticate": 'Basic realm="private"'})
        elif self.path == "/v2/":
            self._send(200, b"{}", {})
        elif kind == "/v2/team/private/manifests" and name in (
            "latest",
            _digest(self.registry.manifest),
        ):
            digest = _digest(self.registry.manifest)
            self._send(
                200,
                self.registry.manifest,
                {"Content-Type": MANIFEST, "Docker-Content-Digest": digest},
            )
        elif name in self.registry.blobs:
            self._send(200, self.registry.blobs[name], {"Content-Type": "application/octet-stream"})
        else:
            self._send(
                404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}', {}
            )

    do_HEAD = do_GET

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {"Docker-Distribution-Api-Version": "registry/2.0", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests; tests assert on the agent's messages."""


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _reference(blob: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "size": len(blob), "digest": _digest(blob)}


def _tar_of(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
