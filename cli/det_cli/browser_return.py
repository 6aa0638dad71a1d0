"""The page of this machine to which a browser returns after a sign-in."""

import hmac
import time
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

from det_cli.errors import CommandError

_PATH = "/callback"
_PAGE = "<!doctype html><meta charset=utf-8><title>det</title><p>{}</p>"
_DONE = "You may close this page: <code>det</code> goes on in the terminal."
_FAILED = "The sign-in failed; the terminal tells why."


class BrowserReturn:
    """Listens on this machine only, and for one sign-in: that of `state`."""

    def __init__(self, port: int, state: str) -> None:
        self._state = state
        self._told: dict[str, str] | None = None
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
        """Wait for the browser; return the code that it brings."""
        deadline = time.monotonic() + seconds
        while self._told is None and time.monotonic() < deadline:
            self._server.timeout = max(0.1, deadline - time.monotonic())
            self._server.handle_request()
        if self._told is None:
            raise CommandError(
                "no browser came back in time",
                "sign in again, with --headless if the browser is on another machine",
            )
        if not self._told.get("code"):
            cause = self._told.get("error_description") or self._told.get("error") or "no code"
            raise CommandError(f"the identity provider refused the sign-in: {cause}")
        return self._told["code"]

    def _take(self, target: str) -> bool:
        """Keep the code that the browser brings if it belongs to this sign-in."""
        parts = urlsplit(target)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        state = given.get("state", "").encode()
        if parts.path != _PATH or not hmac.compare_digest(state, self._state.encode()):
            return False
        self._told = given
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        returning = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # a connection that says nothing holds nobody up

            def do_GET(self) -> None:
                taken = returning._take(self.path)
                said = _DONE if taken and (returning._told or {}).get("code") else _FAILED
                page = _PAGE.format(said).encode()
                self.send_response(200 if taken else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: object) -> None:
                return

        return Handler


def open_browser(url: str) -> bool:
    """Open a browser where there is one with a window."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
