"""Convert answers of the app for the network: headers, compression, failed streams. Every host uses it."""

import gzip
import json
from dataclasses import dataclass
from http import HTTPStatus

from det_controlplane.api.app import App
from det_controlplane.api.http import Batch, Request, Response, Stream

GZIP_FROM = 1024
_LOOPBACK = ("127.0.0.1", "::1")
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """An answer as it goes over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


def wire_answer(request: Request, response: Response) -> WireAnswer:
    headers = {**_ALWAYS, "content-type": response.media_type}
    headers.update((name.lower(), value) for name, value in response.headers.items())
    body = response.body
    if _compresses(request, response, headers):
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers["content-encoding"] = "gzip"
        headers["vary"] = "Accept-Encoding"
    if response.status != HTTPStatus.NO_CONTENT:
        headers["content-length"] = str(len(body))
    return WireAnswer(response.status, headers, b"" if request.method == "HEAD" else body)


def stream_headers(stream: Stream) -> dict[str, str]:
    own = {name.lower(): value for name, value in stream.headers.items()}
    return {**_ALWAYS, "content-type": stream.media_type, "x-accel-buffering": "no", **own}


def next_batch(app: App, request: Request, stream: Stream, cursor: object) -> Batch:
    """Fetch the next lines of a stream; a failure becomes its last line, as its status is sent already."""
    try:
        return stream.fetch(cursor)
    except Exception as e:
        if stream.is_file:
            raise
        return Batch([_error_line(app.failed(request, e))], cursor, done=True)


def _error_line(response: Response) -> bytes:
    inner = json.loads(response.body)["error"]
    error = {
        "grpcCode": inner["code"],
        "httpCode": response.status,
        "message": inner["error"],
        "httpStatus": HTTPStatus(response.status).phrase,
        "details": [],
    }
    return json.dumps({"error": error}, separators=(",", ":")).encode() + b"\n"


def _compresses(request: Request, response: Response, headers: dict[str, str]) -> bool:
    if len(response.body) <= GZIP_FROM or "content-encoding" in headers:
        return False
    if not response.media_type.startswith(("application/json", "text/")):
        return False
    # On one machine compression costs more than it saves; a proxy names the true client.
    if request.client in _LOOPBACK and "x-forwarded-for" not in request.headers:
        return False
    return "gzip" in request.headers.get("accept-encoding", "")
