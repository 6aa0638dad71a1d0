"""Requests that come while others like them are being answered: one thread answers all of them in the next batch."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast

import pytest
from det_controlplane.api.app import App
from det_controlplane.api.http import Request, Response
from det_controlplane.api.router import Route, Shared
from det_controlplane.entry.server import request_batches
from det_controlplane.entry.server.answers import WireAnswer
from det_controlplane.entry.server.request_batches import RequestBatches
from det_controlplane.services import batching
from det_controlplane.services.batching import Batcher

PATIENT_S = 60.0
SHARED = Shared(lambda _: True, lambda _, requests: [None] * len(requests))
ROUTE = Route("POST", "/x", lambda _, request: Response(request.body), shared=SHARED)


class Echo:
    """Answers requests with bodies, and leaves the others. Each batch ends when the test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.ends: list[threading.Event] = []

    def handle_together(self, _: Route, requests: Sequence[Request]) -> list[Response | None]:
        end = threading.Event()
        self.ends.append(end)
        self.batches.append([request.body for request in requests])
        assert end.wait(PATIENT_S)
        if any(r.body == b"mistake" for r in requests):
            raise ValueError("a mistake")
        return [Response(r.body) if r.body else None for r in requests]


class Host:
    """Runs batches in threads."""

    def __init__(self) -> None:
        self._echo = Echo()
        self._sharing = RequestBatches(cast(App, self._echo), self._in_thread)

    @property
    def batches(self) -> list[list[bytes]]:
        return self._echo.batches

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(call, *arguments)

    async def send(self, *bodies: bytes) -> "list[asyncio.Task[WireAnswer | None]]":
        """Send requests one after the other; return their answers to be."""
        sent = []
        for body in bodies:
            answer = self._sharing.answer(ROUTE, Request("POST", "/x", body=body))
            sent.append(asyncio.create_task(answer))
            await self.settled()
        return sent

    async def end(self, number: int) -> None:
        waiting = self._sharing.waiting(ROUTE)
        self._echo.ends[number].set()
        while self._sharing.waiting(ROUTE) == waiting:
            await asyncio.sleep(0.001)
        await self.settled()

    async def end_all(self) -> None:
        number = 0
        while self._sharing.waiting(ROUTE):
            if number < len(self._echo.ends) and not self._echo.ends[number].is_set():
                await self.end(number)
            number = (number + 1) % max(1, len(self._echo.ends))
            await asyncio.sleep(0.001)

    async def settled(self) -> None:
        """Wait until the requests have joined the queue, and the next batch has begun."""
        await asyncio.sleep(0)
        while self._sharing.is_starting(ROUTE):
            await asyncio.sleep(0.001)


def tried(test: Callable[[Host], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(Host())

    asyncio.run(run())


async def bodies_of(sent: "Sequence[asyncio.Task[WireAnswer | None]]") -> list[bytes | None]:
    return [None if answer is None else answer.body for answer in await asyncio.gather(*sent)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_PATIENCE_S", PATIENT_S)


def test_requests_during_two_batches_share_the_next_one() -> None:
    async def test(host: Host) -> None:
        sent = await host.send(b"1", b"2", b"3", b"", b"5")
        assert host.batches == [[b"1"], [b"2"]]
        await host.end(1)
        assert host.batches[2:] == [[b"3", b"", b"5"]]
        await host.end_all()
        assert await bodies_of(sent) == [b"1", b"2", b"3", None, b"5"]

    tried(test)


def test_second_batch_starts_with_as_many_requests_as_the_first() -> None:
    async def test(host: Host) -> None:
        sent = await host.send(b"1", b"2", b"3", b"4")
        await host.end(0)
        await host.end(1)
        sent += await host.send(b"5")
        assert host.batches[2:] == [[b"3", b"4"]]
        sent += await host.send(b"6")
        assert host.batches[3:] == [[b"5", b"6"]]
        await host.end_all()
        assert await bodies_of(sent) == [b"1", b"2", b"3", b"4", b"5", b"6"]

    tried(test)


def test_batch_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    batcher = partial(Batcher, most=2)
    monkeypatch.setattr(request_batches, "Batcher", batcher)

    async def test(host: Host) -> None:
        sent = await host.send(b"1", b"2", b"3", b"4", b"5")
        await host.end(0)
        assert host.batches[2:] == [[b"3", b"4"]]
        await host.end(1)
        await host.end(2)
        assert host.batches[3:] == [[b"5"]]
        await host.end_all()
        assert await bodies_of(sent) == [b"1", b"2", b"3", b"4", b"5"]

    tried(test)


def test_hanging_batches_do_not_delay_later_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "_PATIENCE_S", 0.0)

    async def test(host: Host) -> None:
        hanging = await host.send(b"1", b"2")
        (last,) = await host.send(b"3")
        await host.end(2)
        assert await bodies_of([last]) == [b"3"]
        await host.end_all()
        assert await bodies_of(hanging) == [b"1", b"2"]

    tried(test)


def test_requests_of_a_failed_batch_are_repeated_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host) -> None:
        sent = await host.send(b"1", b"2", b"3", b"mistake", b"5", b"6", b"7")
        await host.end_all()
        assert await bodies_of(sent) == [b"1", b"2", *[None] * 5]
        sent = await host.send(b"8")
        await host.end_all()
        assert await bodies_of(sent) == [b"8"]

    tried(test)
    assert "5 requests that were answered together failed" in caplog.text


def test_failure_is_logged_in_the_worker_thread(caplog: pytest.LogCaptureFixture) -> None:
    """The log is stored in the database, and the event loop must not wait for it."""

    async def test(host: Host) -> None:
        sent = await host.send(b"mistake")
        await host.end_all()
        assert await bodies_of(sent) == [None]

    tried(test)
    (record,) = [r for r in caplog.records if "failed" in r.message]
    assert record.thread != threading.get_ident()


def test_other_requests_are_answered_if_the_client_of_their_leader_leaves() -> None:
    async def test(host: Host) -> None:
        first, *others = await host.send(b"1", b"2", b"3", b"4")
        await host.end(0)
        await host.end(1)
        others[1].cancel()
        await host.end_all()
        assert await bodies_of([first, others[0], others[2]]) == [b"1", b"2", b"4"]

    tried(test)
