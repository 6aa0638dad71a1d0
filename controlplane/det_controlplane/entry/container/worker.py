"""A service that works when it is called: `POST /` takes a turn, and a call during a turn makes it look again."""

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket

from det_controlplane.entry.scheduled_work import Clock, Turn

log = logging.getLogger("det.worker")

# Below the services' time limits, so that a turn answers.
TURN_S = 120.0
READY_PATH = "/ready"


class Worker:
    """Run one turn at a time. The process has a processor until the call that began the turn is answered."""

    def __init__(self, turn: Turn, turn_s: float = TURN_S) -> None:
        self._turn = turn
        self._turn_s = turn_s
        self._lock = threading.Lock()
        self._busy = False
        self._again = threading.Event()
        self._stopping = False

    def call(self) -> dict[str, float | bool | None]:
        with self._lock:
            if self._busy:
                self._again.set()
                return {"joined": True}
            self._busy = True
        try:
            return {"next_due_s": self._turns()}
        except BaseException:
            with self._lock:
                self._busy = False
            raise

    def stop(self) -> None:
        """End the turn after its present step."""
        self._stopping = True
        self._again.set()

    def _turns(self) -> float | None:
        end = time.monotonic() + self._turn_s
        clock = Clock(lambda: 0.0 if self._stopping else end - time.monotonic(), self._pause)
        while True:
            self._again.clear()
            due_s = self._turn(clock)
            with self._lock:
                # Under the lock, so that a call either is seen here or begins a turn of its own.
                if self._stopping or not self._again.is_set():
                    self._busy = False
                    return due_s

    def _pause(self, seconds: float) -> None:
        self._again.wait(seconds)
        if not self._stopping:
            self._again.clear()


def server(
    worker: Worker, listening: socket, ready: Callable[[], None] = lambda: None
) -> ThreadingHTTPServer:
    """Return a server on a socket that listens. Cloud Run asks callers for their right to call.

    `GET /ready` answers 200 if `ready` does not raise. Cloud Run sends no calls before the first 200."""

    class Handler(BaseHTTPRequestHandler):
        # Each request has its own connection, so that an idle connection does not delay the end of the process.
        protocol_version = "HTTP/1.0"
        timeout = 5

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, body = 200, dict[str, object](worker.call())
            except Exception as e:
                log.exception("the turn failed")
                status, body = 500, {"error": f"the turn failed: {type(e).__name__}"}
            # The caller may disconnect before its turn ends.
            with suppress(ConnectionError):
                self._answer(status, body)

        def do_GET(self) -> None:
            try:
                if self.path == READY_PATH:
                    ready()
            except Exception as e:
                log.warning("not ready: %s", e)
                self._answer(503, {"status": f"not ready: {e}"})
            else:
                self._answer(200, {"status": "ready"})

        def _answer(self, status: int, body: object) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Do nothing, because Cloud Run logs requests itself."""

    class Server(ThreadingHTTPServer):
        # Let a running turn finish.
        daemon_threads = False

    http_server = Server(listening.getsockname()[:2], Handler, bind_and_activate=False)
    http_server.socket.close()
    http_server.socket = listening
    return http_server
