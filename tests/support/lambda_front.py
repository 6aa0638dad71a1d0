"""The front door of a function: HTTP as a Function URL of AWS Lambda carries it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.lambda_events import Http
from tests.support.lambda_runtime import RequestTooLarge
from tests.support.threaded import serving

Answer = tuple[int, dict[str, str], bytes]
# Answers of AWS itself, before a function runs.
_TOO_LARGE = {
    "Message": "Request must be smaller than 6291456 bytes for the InvokeFunction operation"
}


@contextmanager
def function_url(answer: Callable[[Http], Answer]) -> Iterator[str]:
    """Serve a function; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _front(answer))
    with serving(server) as address:
        yield address


def _front(answer: Callable[[Http], Answer]) -> type[BaseHTTPRequestHandler]:
    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def _carry(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, headers, content = answer(
                    Http(self.command, self.path, body, tuple(self.headers.items()))
                )
            except RequestTooLarge:
                status, headers, content = 413, {}, json.dumps(_TOO_LARGE).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _carry

        def log_message(self, format: str, *args: object) -> None:
            return

    return Front
