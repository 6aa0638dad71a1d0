"""Synchronous calls run beside the event loop, many at once, and their failures come back."""

import asyncio
import gc
import threading
import weakref

import pytest
from det_controlplane.entry.server.workers import Workers


def test_results_and_failures_come_back() -> None:
    async def scenario() -> None:
        workers = Workers(2)
        assert await workers.run(lambda a, b: a + b, 1, 2) == 3
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0)
        workers.stop()

    asyncio.run(scenario())


def test_as_many_calls_run_at_once_as_there_are_threads() -> None:
    meeting = threading.Barrier(3)

    async def scenario() -> list[int]:
        workers = Workers(3)
        places = await asyncio.gather(*(workers.run(meeting.wait, 60) for _ in range(3)))
        workers.stop()
        return places

    assert sorted(asyncio.run(scenario())) == [0, 1, 2]


def test_a_caller_that_gives_up_does_not_break_the_thread() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        leave.wait(60)

    async def scenario() -> None:
        workers = Workers(1)
        call = asyncio.create_task(workers.run(slow))
        while not entered.is_set():
            await asyncio.sleep(0)
        call.cancel()
        leave.set()
        assert await workers.run(lambda: "next") == "next"
        workers.stop()

    asyncio.run(scenario())


def test_a_request_is_forgotten_once_answered() -> None:
    class Large:
        pass

    async def scenario() -> bool:
        workers = Workers(1)
        large = Large()
        gone = weakref.ref(large)
        await workers.run(lambda _: None, large)
        del large
        await workers.run(lambda: None)
        gc.collect()
        forgotten = gone() is None
        workers.stop()
        return forgotten

    assert asyncio.run(scenario())


def test_calls_wait_for_a_thread_where_the_system_has_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, left = threading.Thread.start, [1]

    def scarce(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    entered, leave = threading.Event(), threading.Event()

    def slow() -> str:
        entered.set()
        leave.wait(60)
        return "first"

    async def scenario() -> list[str]:
        workers = Workers(3)
        first = asyncio.create_task(workers.run(slow))
        while not entered.is_set():
            await asyncio.sleep(0)
        second = asyncio.create_task(workers.run(lambda: "second"))
        await asyncio.sleep(0)
        leave.set()
        told = [await first, await second]
        workers.stop()
        return told

    assert asyncio.run(scenario()) == ["first", "second"]


def test_without_any_thread_the_caller_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)

    async def scenario() -> None:
        workers = Workers(1)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start"):
                await workers.run(lambda: None)
        workers.stop()

    asyncio.run(scenario())


def test_a_call_that_stops_an_iteration_fails_too() -> None:
    async def scenario() -> None:
        workers = Workers(1)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await workers.run(lambda: next(iter(())))
        workers.stop()

    asyncio.run(scenario())
