"""The API of a test behind a socket, for commands that come as users type them and for browsers."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from det_controlplane.api.app import App
from det_controlplane.api.http import Request
from det_controlplane.api.router import Router
from det_controlplane.entry.server.web_files import web_routes

from tests.support.api import Api, told
from tests.support.threaded import serving


@contextmanager
def served(api: Api) -> Iterator[str]:
    """Serve an API and the WebUI on this machine; give its address."""

    @functools.cache
    def pages() -> App:
        return App(api.ctx, Router(web_routes()))

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            request = Request(
                self.command,
                parts.path,
                query=parse_qs(parts.query, keep_blank_values=True),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self.rfile.read(length),
                client=self.client_address[0],
            )
            app = pages() if parts.path.startswith("/det") else api.app
            answer = told(app, app.handle(request))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.media_type)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            # Browsers close connections that a page no longer needs.
            with suppress(BrokenPipeError, ConnectionResetError):
                self.end_headers()
                self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(server) as address:
        yield address
