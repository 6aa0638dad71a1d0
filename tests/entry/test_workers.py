"""Synchronous calls run beside the event loop, many at once, and their failures come back."""

import asyncio
import gc
import threading
import weakref

import pytest
from det_controlplane.entry.workers import Workers


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
        workers.stop()
        return gone() is None

    assert asyncio.run(scenario())
