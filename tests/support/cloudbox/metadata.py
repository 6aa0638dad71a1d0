"""The metadata services of EC2 (version 2) and of Compute Engine, at their common address.

The address in the network identifies the caller, as for the hypervisors of clouds.
"""

import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class MetadataRequest:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class MetadataResponse:
    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    hops: int = 64  # how many networks the answer crosses


class Service(Protocol):
    def answer(self, request: MetadataRequest) -> MetadataResponse: ...


@dataclass
class Ec2Metadata:
    """The metadata of an instance on EC2. `tree` has the paths below /latest/."""

    tree: Callable[[], Mapping[str, str]]
    hop_limit: int
    needs_token: bool = True
    _tokens: dict[str, float] = field(default_factory=dict)

    def answer(self, request: MetadataRequest) -> MetadataResponse:
        if request.path == "/latest/api/token":
            return self._token(request)
        token = request.headers.get("x-aws-ec2-metadata-token", "")
        if self.needs_token and self._tokens.get(token, 0.0) < time.monotonic():
            return MetadataResponse(401)
        text = self.tree().get(request.path.removeprefix("/latest/"))
        return MetadataResponse(404) if text is None else MetadataResponse(200, text)

    def _token(self, request: MetadataRequest) -> MetadataResponse:
        life = request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        if request.method != "PUT" or not life.isdigit() or not 1 <= int(life) <= 21600:
            return MetadataResponse(400 if request.method == "PUT" else 405)
        if "x-forwarded-for" in request.headers:
            return MetadataResponse(403)
        token = secrets.token_urlsafe(40)
        self._tokens[token] = time.monotonic() + int(life)
        return MetadataResponse(200, token, hops=self.hop_limit)


@dataclass
class GceMetadata:
    """The metadata of an instance of Compute Engine. `tree` has the paths below /computeMetadata/v1/."""

    tree: Callable[[], Mapping[str, str]]
    identity: Callable[[str], str]  # a token for an audience
    own: Mapping[str, str] = field(default_factory=lambda: {"Metadata-Flavor": "Google"})

    def answer(self, request: MetadataRequest) -> MetadataResponse:
        if (
            request.headers.get("metadata-flavor") != "Google"
            or "x-forwarded-for" in request.headers
        ):
            return MetadataResponse(403, "Missing Metadata-Flavor:Google header.", self.own)
        path = request.path.removeprefix("/computeMetadata/v1/")
        if path == "instance/service-accounts/default/identity":
            if request.query.get("format") != "full" or not request.query.get("audience"):
                return MetadataResponse(400, "", self.own)
            return MetadataResponse(200, self.identity(request.query["audience"]), self.own)
        text = self.tree().get(path)
        return (
            MetadataResponse(404, "", self.own)
            if text is None
            else MetadataResponse(200, text, self.own)
        )


def serve_metadata(
    listening: socket.socket, service_of: Callable[[str], Service | None]
) -> ThreadingHTTPServer:
    """Return a server for the caller to run; `service_of` finds the service of an address."""

    handler = partial(_Handler, service_of)
    server = ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.daemon_threads = True
    return server


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, service_of: Callable[[str], Service | None], *given: Any) -> None:
        self._service_of = service_of
        super().__init__(*given)

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        service = self._service_of(self.client_address[0])
        request = MetadataRequest(self.command, parts.path, query, headers)
        answer = service.answer(request) if service is not None else MetadataResponse(404)
        content = answer.text.encode()
        self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, answer.hops)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = _answer

    def log_message(self, *_: Any) -> None:
        return None


def as_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2)
