"""Threads for synchronous handlers. Half the cost of `run_in_executor`, which every request would pay."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Workers:
    """The thread that rested least is called first: it is still in the processor's caches, and the others sleep on."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changing = threading.Lock()
        self._idle: list[_Worker] = []
        self._waiting: deque[_Job] = deque()
        self._threads: list[threading.Thread] = []
        self._stopped = False

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call in a thread. Who is cancelled meanwhile no longer waits; the call still ends."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._give(_Job(loop, future, function, args))
        return await future

    def stop(self) -> None:
        """When the calls that were asked for have ended."""
        with self._changing:
            self._stopped = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.take(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._stopped = False

    def _give(self, job: "_Job") -> None:
        with self._changing:
            if self._idle:
                self._idle.pop().take(job)
            elif len(self._threads) < self._most:
                self._start(job)
            else:
                self._waiting.append(job)

    def _start(self, job: "_Job") -> None:
        worker = _Worker()
        name = f"request-{len(self._threads)}"
        thread = threading.Thread(target=self._work, args=[worker], name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            if not self._threads:
                raise
            self._waiting.append(job)
            return
        self._threads.append(thread)
        worker.take(job)

    def _work(self, worker: "_Worker") -> None:
        job = worker.wait()
        while job is not None:
            job.run()
            # Or the last request would stay in memory until the next comes.
            del job
            job = self._next(worker)

    def _next(self, worker: "_Worker") -> "_Job | None":
        with self._changing:
            if self._waiting:
                return self._waiting.popleft()
            if self._stopped:
                return None
            self._idle.append(worker)
        return worker.wait()


class _Worker:
    """Where a resting thread is handed its next job, or None for the end."""

    __slots__ = ("_given", "_job")

    def __init__(self) -> None:
        self._given = threading.Lock()
        self._given.acquire()
        self._job: _Job | None = None

    def take(self, job: "_Job | None") -> None:
        self._job = job
        self._given.release()

    def wait(self) -> "_Job | None":
        self._given.acquire()
        job, self._job = self._job, None
        return job


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
        except StopIteration as e:  # which no future takes
            self._tell(self._future.set_exception, RuntimeError(f"a call ended by {e!r}"))
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
