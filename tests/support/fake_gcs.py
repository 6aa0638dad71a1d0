"""Google Cloud Storage for tests: the emulator's protocol on a server that takes many requests at once."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage

from tests.support import threaded


class FakeGCS:
    """The recorded requests, the requests that must fail, and hooks before answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.ranges: list[str] = []
        self.breaks: Callable[[str, str], bool] = lambda method, target: False
        self.refuses: Callable[[str, str], bool] = lambda method, target: False
        self.before_answer: Callable[[str, str], None] = lambda method, target: None
        self.storage = threading.Lock()  # the emulator's storage is not made for threads

    def seen(self, method: str, target: str, expected_method: str | None) -> None:
        self.requests.append((method, target))
        self.ranges += [expected_method] if expected_method else []


class _Handler(RequestHandler):  # type: ignore[misc]
    def __init__(self, fake: FakeGCS, *args: Any) -> None:
        self._fake = fake
        super().__init__(*args)

    def _answer(self, method: str, answer: Callable[[], None]) -> None:
        self._fake.seen(method, self.path, self.headers.get("range"))
        self._fake.before_answer(method, self.path)
        if self._fake.breaks(method, self.path):
            self.close_connection = True  # no answer at all: the client sees a cut connection
            return
        if self._fake.refuses(method, self.path):
            self._error(403, "the account does not have storage.objects.* access")
            return
        with self._fake.storage:
            if self._is_behind_end():
                self._error(416, "The requested range cannot be satisfied.")
            else:
                answer()

    def _is_behind_end(self) -> bool:
        """Return whether the range begins after the last byte. The emulator would answer with an empty body."""
        begin = re.match(r"bytes=(\d+)-", self.headers.get("range") or "")
        place = re.match(r"/download/storage/v1/b/([^/]+)/o/([^?]+)", self.path)
        if begin is None or place is None:
            return False
        try:
            content = self.storage.get_file(place[1], unquote(place[2]))
        except NotFound:
            return False
        return int(begin[1]) >= len(content)

    def _error(self, status: int, message: str) -> None:
        body = json.dumps({"error": {"code": status, "message": message}}).encode()
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._answer("GET", super().do_GET)

    def do_POST(self) -> None:
        self._answer("POST", super().do_POST)

    def do_PUT(self) -> None:
        self._answer("PUT", super().do_PUT)

    def do_DELETE(self) -> None:
        self._answer("DELETE", super().do_DELETE)


class _Server(ThreadingHTTPServer):
    request_queue_size = 256


@contextmanager
def serving(fake: FakeGCS) -> Iterator[str]:
    """Serve; yield the address for STORAGE_EMULATOR_HOST."""
    handler = partial(_Handler, fake, Storage(use_memory_fs=True))
    server = _Server(("127.0.0.1", 0), handler)
    with threaded.serving(server) as address:
        yield address
