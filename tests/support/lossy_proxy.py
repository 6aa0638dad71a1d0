"""An HTTP proxy that loses a share of the answers, after the server behind it has acted."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.threaded import serving


class LossyProxy(ThreadingHTTPServer):
    """Forward requests to `target`. `loss` is the share of answers that it cuts off, drawn with a seed."""

    daemon_threads = True

    def __init__(self, target: str, loss: float, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = urlsplit(target)
        self.loss, self.lost, self.answered = loss, 0, 0
        self._random = random.Random(seed)

    def loses(self) -> bool:
        is_lost = self._random.random() < self.loss
        self.lost += is_lost
        self.answered += not is_lost
        return is_lost


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyProxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        upstream = HTTPConnection(self.server.address.hostname or "", self.server.address.port)
        headers = {k: v for k, v in self.headers.items() if k.lower() != "accept-encoding"}
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if self.server.loses():
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name in ("content-type", "retry-after"):
            if answer.getheader(name):
                self.send_header(name, answer.getheader(name) or "")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def lossy_proxy(target: str, loss: float, seed: int) -> Iterator[tuple[str, LossyProxy]]:
    server = LossyProxy(target, loss, seed)
    with serving(server) as address:
        yield address, server
