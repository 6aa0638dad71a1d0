"""A registry that answers manifest requests like public registries. It has no blobs, so no engine can pull from it.

Styles:

- `hub` (Docker Hub): gives tokens for missing repositories and answers 401 for their manifests
- `ghcr` (GitHub): its token server answers 403 for missing repositories
- `acr` (Azure): the token is called `access_token`
- `basic` (ECR): no token server, a login for all requests
- `open`: no authentication

Left out: scopes of several repositories, refresh tokens, and expiry of tokens.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Style = Literal["hub", "ghcr", "acr", "basic", "open"]
INDEX = "application/vnd.oci.image.index.v1+json"
DIGEST = "sha256:" + "5" * 64


class FakeRegistry:
    """The images of one registry: `add` them, and look at `requests` afterwards."""

    def __init__(self, style: Style = "hub") -> None:
        self.style = style
        self.requests: list[tuple[str, str]] = []
        self.rate_limited = False
        self.redirects_to = ""  # another registry, to which manifests are redirected
        self._digests: dict[tuple[str, str], str] = {}
        self._logins: dict[str, str] = {}  # of private repositories
        handler = type("Bound", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, digest: str = DIGEST, login: str = "") -> None:
        """Store an image `repository:tag`, private where `login` is `user:password`."""
        repository, _, tag = name.rpartition(":")
        self._digests[repository, tag] = self._digests[repository, digest] = digest
        if login:
            self._logins[repository] = "Basic " + base64.b64encode(login.encode()).decode()

    def digest(self, repository: str, reference: str) -> str | None:
        return self._digests.get((repository, reference))

    def has(self, repository: str) -> bool:
        return any(stored_repository == repository for stored_repository, _ in self._digests)

    def may_read(self, repository: str, basic: str) -> bool:
        """Return whether a login can read a repository. A missing repository looks like a private one."""
        return self.has(repository) and self._logins.get(repository, basic) == basic


@contextmanager
def fake_registry(style: Style = "hub") -> Iterator[FakeRegistry]:
    new_fake_registry = FakeRegistry(style)
    yield new_fake_registry
    new_fake_registry.close()


class _Handler(BaseHTTPRequestHandler):
    registry: FakeRegistry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.registry.requests.append((self.command, self.path))
        parts = urlsplit(self.path)
        if parts.path == "/token":
            self._answer_token(parse_qs(parts.query))
            return
        repository, _, reference = parts.path.removeprefix("/v2/").partition("/manifests/")
        if self.registry.rate_limited:
            self._refuse(429, "TOOMANYREQUESTS", {"Retry-After": "60"})
        elif self.registry.redirects_to:
            self._send(307, b"", {"Location": f"{self.registry.redirects_to}{self.path}"})
        elif self._is_authorized(repository):
            self._answer_manifest(repository, reference)
        else:
            self._refuse(401, "UNAUTHORIZED", {"WWW-Authenticate": self._challenge(repository)})

    do_HEAD = do_GET

    def _answer_token(self, query: dict[str, list[str]]) -> None:
        repository = query["scope"][0].split(":")[1]
        login = self.headers.get("Authorization", "")
        may_read = self.registry.may_read(repository, login)
        if self.registry.style == "ghcr" and not may_read:
            self._refuse(403, "DENIED", {})
            return
        token = f"{repository}|{'pull' if may_read else ''}"
        name = "access_token" if self.registry.style == "acr" else "token"
        self._send(200, json.dumps({name: token, "expires_in": 300}).encode(), {})

    def _answer_manifest(self, repository: str, reference: str) -> None:
        digest = self.registry.digest(repository, reference)
        if digest is None:
            self._refuse(404, "MANIFEST_UNKNOWN", {})
        elif INDEX not in self.headers.get("Accept", ""):
            # Manifests of several platforms are hidden from clients that do not name their type.
            self._refuse(404, "MANIFEST_UNKNOWN", {})
        else:
            self._send(
                200, b'{"manifests":[]}', {"Content-Type": INDEX, "Docker-Content-Digest": digest}
            )

    def _is_authorized(self, repository: str) -> bool:
        authorization = self.headers.get("Authorization", "")
        if self.registry.style == "open":
            return True
        if self.registry.style == "basic":
            return authorization.startswith("Basic ") and self.registry.may_read(
                repository, authorization
            )
        return authorization == f"Bearer {repository}|pull"

    def _challenge(self, repository: str) -> str:
        if self.registry.style == "basic":
            return f'Basic realm="{self.registry.url}/",service="ecr.amazonaws.com"'
        scope = f"repository:{repository}:pull"
        realm = f"{self.registry.url}/token"
        more = ',error="insufficient_scope"' if "Authorization" in self.headers else ""
        return f'Bearer realm="{realm}",service="registry.example.com",scope="{scope}"{more}'

    def _refuse(self, status: int, code: str, headers: dict[str, str]) -> None:
        body = json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode()
        self._send(status, body, headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {"Docker-Distribution-Api-Version": "registry/2.0", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log, because tests check the output of commands."""
