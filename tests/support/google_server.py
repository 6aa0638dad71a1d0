"""The HTTP server of the Google Cloud project of `FakeGoogle`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.support.fake_google import FakeGoogle
from tests.support.google_refusals import Refusal
from tests.support.threaded import serving


@contextmanager
def google_cloud() -> Iterator[FakeGoogle]:
    fake = FakeGoogle()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_json = "json" in self.headers.get("Content-Type", "")
            try:
                body = json.loads(content) if is_json and content else content
                result = fake.answer(self.command, url.path, query, body)
                status = 200 if result is not None else 404
            except Refusal as e:
                status, result = e.status, e.body
            text = json.dumps(result or {}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _answer

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield fake
