"""Google Cloud Storage for tests: the emulator's protocol on a server that takes many requests at once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from typing import Any

from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage

from tests.support import threaded


class FakeGCS:
    """The recorded requests, the requests that must fail, and hooks before answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.ranges: list[str] = []
        self.breaks: Callable[[str, str], bool] = lambda method, target: False
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
        with self._fake.storage:
            answer()

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
