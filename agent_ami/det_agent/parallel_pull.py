"""Let an engine pull the layers of an image over several connections each.

Docker downloads a layer over one connection, and object stores limit the rate of a connection. Here the engine pulls
from a registry at 127.0.0.1 that this module serves for one image: manifests pass through, and blobs come from the
true registry in ranges. The engine still verifies all digests and unpacks the layers. A following pull of the image's
own name finds all layers in the engine.
"""

import secrets
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import docker.auth

from det_agent.registry_reader import (
    CONNECTIONS,
    RANGE_BYTES,
    RemoteRepository,
    Unsuitable,
    blob,
    source_of,
    split_name,
)

# Ranges of a smaller layer cost more than they gain.
LARGE_LAYER_BYTES = 8 * RANGE_BYTES
_LAYERS_AT_ONCE = 3  # the engine's default


@contextmanager
def served(api: Any, image: str, auth: Mapping[str, str] | None) -> Iterator[str]:
    """Serve an image at 127.0.0.1 and yield its name there.

    Raises Unsuitable, OSError or DockerException if the engine should pull the image by itself.
    """
    if not str(api.base_url).startswith("http+docker://"):
        raise Unsuitable("the engine may be on another machine")
    engine = api.version()
    if any(part.get("Name") == "Podman Engine" for part in engine.get("Components") or ()):
        raise Unsuitable("Podman wants TLS, also at 127.0.0.1")
    if auth is None:
        stored = docker.auth.load_config().resolve_authconfig(split_name(image)[0]) or {}
        auth = {str(name).lower(): str(value) for name, value in stored.items() if value}
    remote = RemoteRepository(source_of(image, api.info(), auth))
    digest = _digest_of_large_image(remote, split_name(image)[2], engine)
    # Only the engine knows the path. Containers in the network of this machine can reach the port, too.
    path = f"{secrets.token_hex(16)}/image"
    with ThreadPoolExecutor(_LAYERS_AT_ONCE * CONNECTIONS, "layer") as pool:
        handler = type("Bound", (_Handler,), {"remote": remote, "pool": pool, "path_prefix": path})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="layers", daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}/{path}@{digest}"
        finally:
            server.shutdown()
            server.server_close()
            pool.shutdown(wait=False, cancel_futures=True)


def _digest_of_large_image(
    remote: RemoteRepository, reference: str, engine: Mapping[str, Any]
) -> str:
    """Return the digest of the manifest for this engine. Raises Unsuitable if the image has no large layer."""
    digest, manifest = remote.manifest(reference)
    if "manifests" in manifest:
        platform = {"os": engine.get("Os", "linux"), "architecture": engine.get("Arch", "")}
        fitting = [
            m["digest"]
            for m in manifest["manifests"]
            if platform.items() <= (m.get("platform") or {}).items()
        ]
        if not fitting:
            raise Unsuitable("the image is for other platforms")
        digest, manifest = fitting[0], remote.manifest(fitting[0])[1]
    sizes = [int(layer["size"]) for layer in manifest.get("layers") or ()]
    if not digest or max(sizes, default=0) < LARGE_LAYER_BYTES:
        raise Unsuitable("the image has no large layer")
    return digest


class _Handler(BaseHTTPRequestHandler):
    remote: RemoteRepository
    pool: ThreadPoolExecutor
    path_prefix: str
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parent, _, name = self.path.rpartition("/")
        kind = parent.removeprefix(f"/v2/{self.path_prefix}/")
        try:
            if self.path == "/v2/":
                self._send(200, {}, b"{}")
            elif kind == "manifests":
                self._send_manifest(name)
            elif kind == "blobs":
                self._send_blob(name)
            else:
                self._send(404, {}, b"")
        except (OSError, Unsuitable):
            # The engine sees a broken download. Its ordinary pull then names the cause.
            self.close_connection = True

    do_HEAD = do_GET

    def _send_manifest(self, name: str) -> None:
        response = self.remote.manifest_response(name)
        names = ("Content-Type", "Docker-Content-Digest")
        headers = {n: response.headers[n] for n in names if n in response.headers}
        self._send(200, headers, response.content)

    def _send_blob(self, digest: str) -> None:
        size, parts = blob(self.remote, self.pool, digest)
        self._send(200, {"Content-Type": "application/octet-stream"}, b"", size)
        if self.command != "HEAD":
            for part in parts:
                self.wfile.write(part)

    def _send(
        self, status: int, headers: Mapping[str, str], body: bytes, length: int | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests; the pull logs its progress."""
