"""Threads for synchronous handlers. Half the cost of `run_in_executor`, which every request would pay."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Workers:
    def __init__(self, count: int) -> None:
        self._count = count
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call in a thread. Who is cancelled meanwhile no longer waits; the call still ends."""
        if not self._threads:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(loop, future, function, args))
        return await future

    def stop(self) -> None:
        """When the calls that were asked for have ended."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start(self) -> None:
        for number in range(self._count):
            thread = threading.Thread(target=self._work, name=f"request-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job.run()
            # Or the last request would stay in memory until the next comes.
            del job


class _Job:
    __slots__ = ("_args", "_function", "_future", "_loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
        function: Callable[..., Any],
        args: tuple[object, ...],
    ) -> None:
        self._loop = loop
        self._future = future
        self._function = function
        self._args = args

    def run(self) -> None:
        try:
            result = self._function(*self._args)
        except BaseException as e:
            self._tell(self._future.set_exception, e)
        else:
            self._tell(self._future.set_result, result)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        # A loop that is closed has nobody left who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if not self._future.done():
            settle(outcome)
