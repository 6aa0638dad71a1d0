"""Requests that come while others like them are being answered: one thread answers all of them in the next batch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
from det_controlplane.api.app import App
from det_controlplane.api.http import Request, Response
from det_controlplane.api.router import Route, Shared
from det_controlplane.entry.server import request_batches
from det_controlplane.entry.server.answers import WireAnswer
from det_controlplane.entry.server.request_batches import RequestBatches

PATIENT_S = 60.0
SHARED = Shared(lambda _: True, lambda _, requests: [None] * len(requests))
ROUTE = Route("POST", "/x", lambda _, request: Response(request.body), shared=SHARED)


class Echo:
    """Answer requests with bodies, and leave the others."""

    def handle_together(self, _: Route, requests: Sequence[Request]) -> list[Response | None]:
        if any(r.body == b"mistake" for r in requests):
            raise ValueError("a mistake")
        return [Response(r.body) if r.body else None for r in requests]


class Host:
    """Runs batches on the loop of the test; each ends when the test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.is_in_thread = False
        self._ends: list[asyncio.Future[None]] = []
        self._sharing = RequestBatches(cast(App, Echo()), self._in_thread)

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self.batches.append([request.body for request in arguments[1]])
        self._ends.append(asyncio.get_running_loop().create_future())
        await self._ends[-1]
        self.is_in_thread = True
        try:
            return call(*arguments)
        finally:
            self.is_in_thread = False

    async def send(self, *bodies: bytes) -> "list[asyncio.Task[WireAnswer | None]]":
        """Send requests one after the other; return their answers to be."""
        answers = []
        for body in bodies:
            answer = self._sharing.answer(ROUTE, Request("POST", "/x", body=body))
            answers.append(asyncio.create_task(answer))
            await self.settled()
        return answers

    async def end(self, number: int) -> None:
        self._ends[number].set_result(None)
        await self.settled()

    async def end_all(self) -> None:
        for number, end in enumerate(self._ends):
            if not end.done():
                await self.end(number)

    async def settled(self) -> None:
        """Run everything that does not have to wait."""
        for _ in range(10):
            await asyncio.sleep(0)


def tried(test: Callable[[Host], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(Host())

    asyncio.run(run())


async def bodies_of(tasks: "Sequence[asyncio.Task[WireAnswer | None]]") -> list[bytes | None]:
    return [None if answer is None else answer.body for answer in await asyncio.gather(*tasks)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_batches, "_PATIENCE_S", PATIENT_S)


def test_requests_during_two_batches_share_the_next_one() -> None:
    async def test(host: Host) -> None:
        answers = await host.send(b"1", b"2", b"3", b"", b"5")
        assert host.batches == [[b"1"], [b"2"]]
        await host.end(1)
        assert host.batches[2:] == [[b"3", b"", b"5"]]
        await host.end_all()
        assert await bodies_of(answers) == [b"1", b"2", b"3", None, b"5"]

    tried(test)


def test_second_batch_starts_with_as_many_requests_as_the_first() -> None:
    async def test(host: Host) -> None:
        answers = await host.send(b"1", b"2", b"3", b"4")
        await host.end(0)
        await host.end(1)
        answers += await host.send(b"5")
        assert host.batches[2:] == [[b"3", b"4"]]
        answers += await host.send(b"6")
        assert host.batches[3:] == [[b"5", b"6"]]
        await host.end_all()
        assert await bodies_of(answers) == [b"1", b"2", b"3", b"4", b"5", b"6"]

    tried(test)


def test_batch_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_batches, "_MOST", 2)

    async def test(host: Host) -> None:
        answers = await host.send(b"1", b"2", b"3", b"4", b"5")
        await host.end(0)
        assert host.batches[2:] == [[b"3", b"4"]]
        await host.end(1)
        await host.end(2)
        assert host.batches[3:] == [[b"5"]]
        await host.end_all()
        assert await bodies_of(answers) == [b"1", b"2", b"3", b"4", b"5"]

    tried(test)


def test_hanging_batches_do_not_delay_later_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_batches, "_PATIENCE_S", 0.0)

    async def test(host: Host) -> None:
        hanging = await host.send(b"1", b"2")
        (last,) = await host.send(b"3")
        while len(host.batches) < 3:
            await asyncio.sleep(0)
        await host.end(2)
        assert await bodies_of([last]) == [b"3"]
        await host.end_all()
        assert await bodies_of(hanging) == [b"1", b"2"]

    tried(test)


def test_requests_of_a_failed_batch_are_repeated_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host) -> None:
        answers = await host.send(b"1", b"2", b"3", b"mistake", b"5", b"6", b"7")
        await host.end_all()
        await host.end_all()
        assert await bodies_of(answers) == [b"1", b"2", *[None] * 5]
        answers = await host.send(b"8")
        await host.end_all()
        assert await bodies_of(answers) == [b"8"]

    tried(test)
    assert "5 requests that were answered together failed" in caplog.text


def test_failure_is_logged_in_the_worker_thread(caplog: pytest.LogCaptureFixture) -> None:
    """The log is stored in the database, and the event loop must not wait for it."""

    async def test(host: Host) -> None:
        def watched(record: logging.LogRecord) -> bool:
            in_thread.append(host.is_in_thread)
            return True

        caplog.handler.addFilter(watched)
        answers = await host.send(b"mistake")
        await host.end_all()
        assert await bodies_of(answers) == [None]
        caplog.handler.removeFilter(watched)

    in_thread: list[bool] = []
    tried(test)
    assert in_thread == [True]
