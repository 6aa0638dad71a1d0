"""An HTTP server in this process with the answers of a test, which records requests."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

Me = TypeVar("Me", bound="FakeApi")


@dataclass
class RecordedRequest:
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    raw: bytes
    found: tuple[str, ...] = ()

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None

    def first(self, key: str, default: str = "") -> str:
        return self.query.get(key, [default])[0]


@dataclass
class Raw:
    """An answer that is not JSON."""

    content: bytes
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    cut_after: int | None = None


class Refusal(Exception):
    """Raised by an answer to send an error body as Determined's servers do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Answer = Callable[[RecordedRequest], Any]


class FakeApi:
    """Newer routes are tried first, so a test overrides routes of a fixture."""

    def __init__(self) -> None:
        self.routes: list[tuple[str, re.Pattern[str], Any]] = []
        self.asked: list[RecordedRequest] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    def __enter__(self: Me) -> Me:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def on(self, method: str, pattern: str, answer: Any) -> None:
        self.routes.insert(0, (method, re.compile(pattern + r"\Z"), answer))

    def sent(self, method: str, pattern: str) -> list[RecordedRequest]:
        return [a for a in self.asked if a.method == method and re.fullmatch(pattern, a.path)]

    def saved(self) -> list[RecordedRequest]:
        """Return the reports of complete checkpoints; the announcements of their uploads are others."""
        requests = self.sent("POST", "/api/v1/checkpoints")
        return [a for a in requests if a.body["state"] == "STATE_COMPLETED"]

    def answer(self, request: RecordedRequest) -> Any:
        for method, pattern, reply in self.routes:
            match = pattern.match(request.path) if method == request.method else None
            if match:
                request.found = match.groups()
                return reply(request) if callable(reply) else reply
        raise Refusal(404, f"route '{request.method} {request.path}' not found")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {k.lower(): v for k, v in self.headers.items()}
                query = parse_qs(parts.query)
                request = RecordedRequest(self.command, unquote(parts.path), query, headers, raw)
                api.asked.append(request)
                try:
                    self._send(api.answer(request))
                except Refusal as e:
                    self._send(Raw(_error_body(e), status=e.status))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def _send(self, answer: Any) -> None:
                if isinstance(answer, Iterator):
                    self._send_lines(answer)
                    return
                if not isinstance(answer, Raw):
                    answer = Raw(json.dumps(answer).encode())
                self.send_response(answer.status)
                for key, value in answer.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content[: answer.cut_after])
                if answer.cut_after is not None:
                    self.close_connection = True

            def _send_lines(self, lines: Iterator[Any]) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for line in lines:
                    data = json.dumps(line).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

        return Handler


def _error_body(e: Refusal) -> bytes:
    return json.dumps({"error": {"code": 5, "reason": "Error", "error": str(e)}}).encode()
