"""The calls of Azure's Blob service that checkpoints need, in memory: blobs, blocks, ranges, pages, deletion."""

import base64
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support import threaded

ACCOUNT_KEY = base64.b64encode(b"a key of no account").decode()
PAGE = 100
Answer = tuple[int, dict[str, str], bytes]
Query = dict[str, list[str]]


class FakeAzure:
    """Stored blobs, recorded requests, and the requests that must fail."""

    def __init__(self) -> None:
        self.containers: set[str] = set()
        self.blobs: dict[str, bytes] = {}
        self.blocks: dict[tuple[str, str], bytes] = {}
        self.ranges: list[str] = []
        self.denied = False
        self.breaks: Callable[[str, str], bool] = lambda method, target: False
        self.lock = threading.Lock()

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        _, container, blob = (*unquote(parts.path).strip("/").split("/", 2), "")[:3]
        if self.denied:
            return _error(403, "AuthorizationFailure")
        if query.get("restype") == ["container"] and method == "PUT":
            self.containers.add(container)
            return 201, {}, b""
        if container not in self.containers:
            return _error(404, "ContainerNotFound")
        if query.get("comp") == ["list"]:
            return 200, {"Content-Type": "application/xml"}, self._page(container, query)
        # A blob's name may end with a slash, which `strip` above took.
        name = f"{container}/{blob}" + ("/" if parts.path.endswith("/") else "")
        if method == "PUT":
            return self._put(name, query, body)
        if name not in self.blobs:
            return _error(404, "BlobNotFound")
        if method == "DELETE":
            del self.blobs[name]
            return 202, {}, b""
        return self._get(name, headers)

    def _put(self, name: str, query: Query, body: bytes) -> Answer:
        if query.get("comp") == ["block"]:
            self.blocks[name, query["blockid"][0]] = body
            return 201, {}, b""
        if query.get("comp") == ["blocklist"]:
            block_ids = re.findall(r"<Latest>(.*?)</Latest>", body.decode())
            if any((name, block) not in self.blocks for block in block_ids):
                return _error(400, "InvalidBlockList")
            body = b"".join(self.blocks[name, block] for block in block_ids)
        self.blobs[name] = body
        return 201, {"ETag": '"1"', "Last-Modified": "Fri, 20 Nov 2026 00:00:00 GMT"}, b""

    def _get(self, name: str, headers: Any) -> Answer:
        body = self.blobs[name]
        range_header = headers.get("x-ms-range") or headers.get("range")
        response_headers = {
            "ETag": f'"{hashlib.md5(body).hexdigest()}"',
            "x-ms-blob-type": "BlockBlob",
        }
        if not range_header:
            return 200, response_headers, body
        low, high = (int(n) for n in range_header.removeprefix("bytes=").split("-"))
        if not body:
            return _error(416, "InvalidRange")
        self.ranges.append(range_header)
        high = min(high, len(body) - 1)
        return (
            206,
            {**response_headers, "Content-Range": f"bytes {low}-{high}/{len(body)}"},
            body[low : high + 1],
        )

    def _page(self, container: str, query: Query) -> bytes:
        root = f"{container}/"
        start = root + query.get("prefix", [""])[0]
        after = query.get("marker", [""])[0]
        keys = sorted(k for k in self.blobs if k.startswith(start) and k > after)
        rows = "".join(
            f"<Blob><Name>{escape(key[len(root) :])}</Name><Properties>"
            f"<Content-Length>{len(self.blobs[key])}</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"
            for key in keys[:PAGE]
        )
        marker = escape(keys[PAGE - 1]) if len(keys) > PAGE else ""
        return (
            f'<?xml version="1.0"?><EnumerationResults ContainerName="{container}">'
            f"<Blobs>{rows}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
        ).encode()


def _error(status: int, code: str) -> Answer:
    xml = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return status, {"x-ms-error-code": code, "Content-Type": "application/xml"}, xml.encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, fake: FakeAzure, *args: Any) -> None:
        self._fake = fake
        super().__init__(*args)

    def log_message(self, *_: Any) -> None:
        pass

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self._fake.breaks(self.command, self.path):
            self.close_connection = True  # no answer at all: the client sees a cut connection
            return
        with self._fake.lock:
            status, headers, answer = self._fake.answer(self.command, self.path, self.headers, body)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(answer))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_DELETE = _handle


class _Server(ThreadingHTTPServer):
    request_queue_size = 256


@contextmanager
def serving(fake: FakeAzure) -> Iterator[str]:
    """Serve an account; yield its connection string."""
    server = _Server(("127.0.0.1", 0), partial(_Handler, fake))
    address = f"http://127.0.0.1:{server.server_address[1]}/account"
    with threaded.serving(server):
        yield f"AccountName=account;AccountKey={ACCOUNT_KEY};BlobEndpoint={address};"
