"""Cloud Run's front end before a service, and Cloud Scheduler, as far as wakes use them.

If an instance does not start, the front end answers for the service: 429 if no instance is ready in time, 500 if the
container ends or its startup probe fails. It may also close a connection. It does not retry requests.
"""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.threaded import serving

CLOSED = 0  # used as a status: the connection ends without an answer


@dataclass
class Front:
    """The address of a service. It answers the first calls by `refusals`, one after the other, without the service."""

    url: str
    behind: Callable[[], int]  # takes a call, and returns the status of the service's answer
    refusals: list[int] = field(default_factory=list)
    calls: int = 0

    def answer(self) -> int:
        self.calls += 1
        return self.refusals.pop(0) if self.refusals else self.behind()


def posting_to(url: str) -> Callable[[], int]:
    """Return a service that is a process on this machine."""

    def call() -> int:
        try:
            with urllib.request.urlopen(url, data=b"{}", timeout=300) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as e:
            with e:
                return e.code

    return call


@contextmanager
def front_end(behind: Callable[[], int]) -> Iterator[Front]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status = front.answer()
            if status != CLOSED:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    front = Front(f"http://127.0.0.1:{server.server_port}", behind)
    with serving(server):
        yield front


@dataclass
class Scheduler:
    """Cloud Scheduler's API for one session, with jobs that call services each minute while they are enabled."""

    jobs: dict[str, Callable[[], int]]  # the service that each job calls, by the job's full name
    states: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states = {name: self.states.get(name, "PAUSED") for name in self.jobs}

    def request(self, method: str, url: str, timeout: float) -> Any:
        name, _, verb = url.partition("/v1/")[2].partition(":")
        if method == "POST":
            self.states[name] = {"pause": "PAUSED", "resume": "ENABLED"}[verb]
        return _Answer({"name": name, "state": self.states[name]})

    def pass_a_minute(self) -> list[int]:
        """Run every enabled job once, and return the statuses of the answers."""
        return [call() for name, call in self.jobs.items() if self.states[name] == "ENABLED"]


@dataclass(frozen=True)
class _Answer:
    body: Any

    def raise_for_status(self) -> None:
        return None

    def json(self) -> Any:
        return self.body
