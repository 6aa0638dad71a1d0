"""A proxy that breaks requests on their way to a storage server, as networks and overloaded servers do."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from tests.support.threaded import serving

# lost: never arrives. unanswered: is carried out, but the answer is lost. half: the answer breaks off.
# busy: refused for now. refused: for good. garbled: the answer's last byte is another.
Fault = Literal["lost", "unanswered", "half", "busy", "refused", "garbled"]
Faults = Callable[[str, str], "Fault | None"]


class BrokenProxy:
    """Asks `faults` about each request's method and target."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.removeprefix("http://")
        self.faults: Faults = lambda method, target: None
        self.requests: list[tuple[str, str]] = []

    def once_each(self, fault: Fault, methods: tuple[str, ...]) -> None:
        """Break every different request of these methods the first time it is sent."""
        requests: set[tuple[str, str]] = set()

        def decide(method: str, target: str) -> Fault | None:
            first = (method, target) not in requests
            requests.add((method, target))
            return fault if first and method in methods else None

        self.faults = decide


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, proxy: BrokenProxy, *args: Any) -> None:
        self._proxy = proxy
        super().__init__(*args)

    def log_message(self, *_: Any) -> None:
        pass

    def handle_expect_100(self) -> bool:
        return True  # the body follows anyway, and the upstream need not be asked

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self._proxy.requests.append((self.command, self.path))
        fault = self._proxy.faults(self.command, self.path)
        if fault == "lost":
            self.close_connection = True
        elif fault == "busy":
            self._respond(503, {}, b"<Error><Code>SlowDown</Code></Error>", None)
        elif fault == "refused":
            self._respond(403, {}, b"<Error><Code>AccessDenied</Code></Error>", None)
        else:
            self._respond(*self._ask(body), fault)

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._proxy.upstream)
        headers = {k: v for k, v in self.headers.items() if k.lower() != "expect"}
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _respond(
        self, status: int, headers: dict[str, str], body: bytes, fault: Fault | None
    ) -> None:
        if fault == "unanswered":
            self.close_connection = True
            return
        if fault == "garbled" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "half":
            self.close_connection = True
            body = body[: len(body) // 2]
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward


class _Server(ThreadingHTTPServer):
    request_queue_size = 256


@contextmanager
def broken_proxy(upstream: str) -> Iterator[tuple[BrokenProxy, str]]:
    """Serve the proxy; yield it and its address."""
    proxy = BrokenProxy(upstream)
    server = _Server(("127.0.0.1", 0), partial(_Handler, proxy))
    with serving(server):
        yield proxy, f"http://127.0.0.1:{server.server_address[1]}"
