"""An OIDC issuer as CI services have one: discovery, a key set that can be rotated, and tokens for jobs."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.keys import rsa_key
from tests.support.threaded import serving

GITHUB = {
    "sub": "repo:me/mine:ref:refs/heads/main", "repository": "me/mine", "ref": "refs/heads/main",
    "workflow": "train",
}  # fmt: skip


class OidcServer:
    def __init__(self, name: str = "issuer") -> None:
        self.name = name
        self.url = ""
        self.down = False
        self.described_as = ""
        self.names_its_key = True
        self.asked: list[str] = []
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.rotate("key-1")

    def rotate(self, key_id: str) -> None:
        """Sign with a new key, and stop publishing the others."""
        self.keys = {key_id: rsa_key(f"{key_id} of {self.name}")}

    def token(self, audience: str, **claims: Any) -> str:
        now = int(time.time())
        payload = {
            **GITHUB,
            "iss": self.url,
            "aud": audience,
            "iat": now,
            "exp": now + 300,
            **claims,
        }
        ((key_id, key),) = self.keys.items()
        payload = {name: value for name, value in payload.items() if value is not None}
        body = {"kid": key_id} if self.names_its_key else None
        return jwt.encode(payload, key, algorithm="RS256", headers=body)

    def key_set(self) -> dict[str, Any]:
        return {"keys": [_as_jwk(key_id, key) for key_id, key in self.keys.items()]}

    def answer(self, target: str) -> tuple[int, Any]:
        path = urlsplit(target).path
        self.asked.append(path)
        if self.down:
            return 500, {}
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.described_as or self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            return 200, self.key_set()
        if path == "/github/token":  # the request of a GitHub job for its token
            (audience,) = parse_qs(urlsplit(target).query)["audience"]
            return 200, {"value": self.token(audience)}
        return 404, {}

    def posted(self, target: str, headers: dict[str, str], body: str) -> tuple[int, Any]:
        """Answer a form; issuers for pipelines take none."""
        return 404, {}


Issuer = TypeVar("Issuer", bound=OidcServer)


def unsigned(claims: dict[str, Any]) -> str:
    """Return a token that says that it needs no signature."""
    parts = ({"alg": "none", "kid": "key-1"}, claims)
    segments = [
        base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts
    ]
    return ".".join([*segments, ""])


def signed_by_public_key(server: OidcServer, audience: str) -> str:
    """Return a token with an HMAC that uses the public key as its secret."""
    (key,) = server.keys.values()
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public)
    now = int(time.time())
    payload = {**GITHUB, "iss": server.url, "aud": audience, "iat": now, "exp": now + 300}
    return jwt.encode(payload, digest.finalize(), algorithm="HS256", headers={"kid": "key-1"})


def _as_jwk(key_id: str, key: rsa.RSAPrivateKey) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    return {**document, "kid": key_id, "use": "sig", "alg": "RS256"}


@contextmanager
def oidc_server(name: str = "issuer") -> Iterator[OidcServer]:
    """Serve an issuer with keys by its name."""
    with served(OidcServer(name)) as issuer:
        yield issuer


@contextmanager
def served(issuer: Issuer) -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*issuer.answer(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            self._send(*issuer.posted(self.path, dict(self.headers), body))

        def _send(self, status: int, value: Any) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", value["location"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield issuer
