"""A small fake of the control plane: it stores reports of a task and answers its requests."""

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]
HANG_UP = 0  # the status of an answer that never comes, as when the agent is killed


class Request:
    """One call that was received."""

    def __init__(self, method: str, path: str, query: str, body: Any, headers: Any) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.headers = headers


class FakeMaster:
    """`on(method, pattern, answer)` sets answers. Other requests get 200 and an empty object."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.preempt = threading.Event()
        self.seconds_left: float | None = None  # of a preempted run
        self._answers: list[tuple[str, re.Pattern[str], Callable[[Request], Answer]]] = []
        self._arrived = threading.Condition()
        master = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                path, _, query = self.path.partition("?")
                body = json.loads(raw) if raw else None
                request = Request(self.command, path, query, body, self.headers)
                status, answer = master.answer(request)
                if status == HANG_UP:
                    self.close_connection = True
                    return
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        self.on("GET", r"/api/v1/allocations/.*/signals/preemption", self._preemption)
        self.on(
            "GET", r"/api/v1/trials/\d+/searcher/operation", (404, {"message": "no such route"})
        )
        self.on("GET", r".*/best_searcher_validation_metric", (404, {"message": "none yet"}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def on(self, method: str, pattern: str, answer: Answer | Callable[[Request], Answer]) -> None:
        """Add a rule; later rules win."""
        decide = answer if callable(answer) else lambda _request: answer
        self._answers.insert(0, (method, re.compile(pattern), decide))

    def answer(self, request: Request) -> Answer:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        for method, pattern, decide in self._answers:
            if method == request.method and pattern.fullmatch(request.path):
                return decide(request)
        return 200, {}

    def received(self, method: str, pattern: str) -> list[Request]:
        with self._arrived:
            return [
                r for r in self.requests if r.method == method and re.fullmatch(pattern, r.path)
            ]

    def saved(self) -> list[Request]:
        """Return the reports of complete checkpoints; the announcements of their uploads are others."""
        requests = self.received("POST", "/api/v1/checkpoints")
        return [r for r in requests if r.body["state"] == "STATE_COMPLETED"]

    def wait_for(
        self, method: str, pattern: str, count: int = 1, timeout_s: float = 60
    ) -> list[Request]:
        with self._arrived:
            self._arrived.wait_for(lambda: len(self._matching(method, pattern)) >= count, timeout_s)
            requests = self._matching(method, pattern)
        assert len(requests) >= count, f"{len(requests)} of {count} {method} {pattern} arrived"
        return requests

    def log_lines(self) -> list[str]:
        batches = self.received("POST", "/api/v1/task/logs")
        return [line["log"].rstrip("\n") for batch in batches for line in batch.body["logs"]]

    def close(self) -> None:
        self.preempt.set()
        self._server.shutdown()
        self._server.server_close()

    def _matching(self, method: str, pattern: str) -> list[Request]:
        return [r for r in self.requests if r.method == method and re.fullmatch(pattern, r.path)]

    def _preemption(self, request: Request) -> Answer:
        seconds = float(request.query.partition("timeoutSeconds=")[2] or 0)
        preempted = self.preempt.wait(seconds)
        left = {} if self.seconds_left is None else {"secondsLeft": self.seconds_left}
        return 200, {"preempt": preempted, **(left if preempted else {})}
