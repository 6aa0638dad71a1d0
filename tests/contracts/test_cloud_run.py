"""Services on Cloud Run start each other, and pause or resume their schedules."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from det_controlplane.adapters import cloud_run
from det_controlplane.adapters.cloud_run import SchedulerJobs, Services
from det_controlplane.adapters.notifier import RecheckingNotifier
from det_controlplane.ports.waker import Waker

from tests.support.ports import free_port
from tests.support.processes import eventually
from tests.support.threaded import serving


@dataclass
class Service:
    """A service with calls that last until the test releases them."""

    url: str
    tokens: list[str] = field(default_factory=list)
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: threading.Event = field(default_factory=threading.Event)


@contextmanager
def service() -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            fake.tokens.append(self.headers["Authorization"])
            fake.called.release()
            fake.go_on.wait(30)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = Service(f"http://127.0.0.1:{server.server_port}")
    with serving(server):
        try:
            yield fake
        finally:
            fake.go_on.set()


def authorise(audience: str) -> dict[str, str]:
    return {"Authorization": f"Bearer for {audience}"}


def test_wake_calls_the_service_of_its_topic_without_waiting() -> None:
    with service() as tick:
        services = Services({"schedule": tick.url}, authorise)
        waker: Waker = services
        waker.wake("agent:1")
        waker.wake("schedule")
        assert tick.called.acquire(timeout=30)
        assert tick.tokens == [f"Bearer for {tick.url}"]
        waker.wake("schedule")
        assert tick.called.acquire(timeout=30), "a turn that looked before must look again"


def test_wakes_before_a_call_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, let_go = threading.Semaphore(0), threading.Event()

    class Sent(threading.Event):
        """An event that signals that a wake waits for it."""

        def wait(self, timeout: float | None = None) -> bool:
            waiting.release()
            return super().wait(timeout)

    def slowly(audience: str) -> dict[str, str]:
        assert let_go.wait(60)
        return authorise(audience)

    fake_threading = SimpleNamespace(Event=Sent, Lock=threading.Lock, Thread=threading.Thread)
    monkeypatch.setattr(cloud_run, "threading", fake_threading)
    with service() as tick:
        tick.go_on.set()
        services = Services({"schedule": tick.url}, slowly)
        wakes = [threading.Thread(target=services.wake, args=("schedule",)) for _ in range(5)]
        for wake in wakes:
            wake.start()
        for _ in wakes:
            assert waiting.acquire(timeout=60)
        let_go.set()
        for wake in wakes:
            wake.join()
        assert eventually(lambda: services._calls == 0)
        assert len(tick.tokens) == 1


def test_missing_service_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    services = Services({"schedule": url}, authorise, retry_after_s=(0.0,))
    services.wake("schedule")
    assert eventually(lambda: f"the service {url} could not be started" in caplog.text)
    assert eventually(lambda: services._calls == 0)


def test_calls_to_a_silent_service_are_limited() -> None:
    with service() as tick:
        services = Services({"schedule": tick.url}, authorise)
        for _ in range(50):
            services.wake("schedule")
        assert services._calls <= 16


class Scheduler:
    """A session with Cloud Scheduler's API."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.calls: list[str] = []

    def request(self, method: str, url: str, timeout: float) -> Any:
        self.calls.append(f"{method} {url}")
        if method == "POST":
            self.state = {"pause": "PAUSED", "resume": "ENABLED"}[url.rpartition(":")[2]]
        return self

    def raise_for_status(self) -> None:
        return None

    def json(self) -> Any:
        return {"state": self.state}


@pytest.mark.parametrize(
    ("state", "on", "then", "calls"),
    [
        ("ENABLED", True, "ENABLED", 1),
        ("ENABLED", False, "PAUSED", 2),
        ("PAUSED", True, "ENABLED", 2),
        ("PAUSED", False, "PAUSED", 1),
    ],
)
def test_schedules_are_switched_only_if_their_state_differs(
    state: str, on: bool, then: str, calls: int
) -> None:
    scheduler = Scheduler(state)
    jobs = SchedulerJobs(["projects/p/locations/r/jobs/j"], endpoint="http://s", session=scheduler)
    jobs.switch(on=on)
    assert (scheduler.state, len(scheduler.calls)) == (then, calls)
    assert scheduler.calls[0] == "GET http://s/projects/p/locations/r/jobs/j"


def test_polling_detects_changes_of_other_processes() -> None:
    notifier = RecheckingNotifier(every_s=0.01)

    async def scenario() -> tuple[bool, bool]:
        before = notifier.seen()
        return await notifier.wait("a", 60, before), await notifier.wait("a", 0.005, before)

    assert asyncio.run(scenario()) == (True, False)
