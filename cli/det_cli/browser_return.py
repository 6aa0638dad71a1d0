"""A local HTTP server that receives the browser redirect at the end of a sign-in."""

import hmac
import time
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

from det_cli.errors import CommandError

_PATH = "/callback"
_PAGE = "<!doctype html><meta charset=utf-8><title>det</title><p>{}</p>"
_DONE = "You are signed in. You can close this page and return to the terminal."
_FAILED = "The sign-in failed. The terminal shows the reason."


class BrowserReturn:
    """Listens on 127.0.0.1 for the redirect of one sign-in, identified by its OAuth `state`."""

    def __init__(self, port: int, state: str) -> None:
        self._state = state
        self._params: dict[str, str] | None = None
        try:
            self._server = HTTPServer(("127.0.0.1", port), self._handler())
        except OSError as e:
            raise CommandError(f"port {port} cannot be used: {e}", "give another --port") from e
        self.uri = f"http://127.0.0.1:{self._server.server_port}{_PATH}"

    def __enter__(self) -> "BrowserReturn":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def code(self, seconds: float) -> str:
        """Wait for the redirect and return its authorization code."""
        deadline = time.monotonic() + seconds
        while self._params is None and time.monotonic() < deadline:
            self._server.timeout = max(0.1, deadline - time.monotonic())
            self._server.handle_request()
        if self._params is None:
            raise CommandError(
                "no browser came back in time",
                "sign in again, with --headless if the browser is on another machine",
            )
        if not self._params.get("code"):
            cause = self._params.get("error_description") or self._params.get("error") or "no code"
            raise CommandError(f"the identity provider refused the sign-in: {cause}")
        return self._params["code"]

    def _accept(self, target: str) -> bool:
        """Store the query of a redirect and return True if its state belongs to this sign-in."""
        parts = urlsplit(target)
        params = {name: values[0] for name, values in parse_qs(parts.query).items()}
        state = params.get("state", "").encode()
        if parts.path != _PATH or not hmac.compare_digest(state, self._state.encode()):
            return False
        self._params = params
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        returning = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # an idle connection must not block the server

            def do_GET(self) -> None:
                accepted = returning._accept(self.path)
                text = _DONE if accepted and (returning._params or {}).get("code") else _FAILED
                page = _PAGE.format(text).encode()
                self.send_response(200 if accepted else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: object) -> None:
                return

        return Handler


def open_browser(url: str) -> bool:
    """Open the URL in a graphical browser. Return False on failure."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
