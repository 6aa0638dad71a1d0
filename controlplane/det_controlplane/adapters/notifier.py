"""Wakes within one process. Request handlers wake topics, and long polls and loops wait for them."""

import asyncio
import contextlib
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable

_REMEMBERED = 4096


class LocalNotifier:
    """A waker for processes that contain the API and its loops. All methods are thread-safe.

    Each wake has a number. A waiter passes the number from before it read the database. A wake between reading and
    waiting is therefore not lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._last: OrderedDict[str, int] = OrderedDict()
        self._waiters: defaultdict[str, set[_Waiter]] = defaultdict(set)
        self._callbacks: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)

    def wake(self, topic: str) -> None:
        with self._lock:
            self._count += 1
            self._last[topic] = self._count
            self._last.move_to_end(topic)
            if len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
            waiters = self._waiters.pop(topic, set())
            callbacks = tuple(self._callbacks.get(topic, ()))
        for waiter in waiters:
            waiter.release()
        for callback in callbacks:
            callback()

    def wake_all(self) -> None:
        """Wake all topics that have waiters."""
        with self._lock:
            topics = list(self._waiters)
        for topic in topics:
            self.wake(topic)

    def on(self, topic: str, callback: Callable[[], None]) -> None:
        """Call `callback` at every wake of the topic, in the thread that wakes it."""
        with self._lock:
            self._callbacks[topic].append(callback)

    def seen(self) -> int:
        """Return the number of the newest wake. Call this before reading the topic's data."""
        with self._lock:
            return self._count

    async def wait(self, topic: str, seconds: float, seen: int) -> bool:
        """Wait until the topic is woken after `seen`. Return False on timeout."""
        waiter = _Waiter(asyncio.get_running_loop())
        with self._lock:
            if self._last.get(topic, 0) > seen:
                return True
            self._waiters[topic].add(waiter)
        try:
            await asyncio.wait_for(waiter.event.wait(), max(seconds, 0))
        except (TimeoutError, asyncio.TimeoutError):
            return False
        finally:
            self._forget(topic, waiter)
        return True

    def waiting(self, topic: str) -> int:
        with self._lock:
            return len(self._waiters.get(topic, ()))

    def _forget(self, topic: str, waiter: "_Waiter") -> None:
        with self._lock:
            waiting = self._waiters.get(topic)
            if waiting is not None:
                waiting.discard(waiter)
                if not waiting:
                    del self._waiters[topic]


class RecheckingNotifier(LocalNotifier):
    """A waker for an API beside other processes. Their changes do not wake it, so waiters check periodically."""

    def __init__(self, every_s: float) -> None:
        super().__init__()
        self._every_s = every_s

    async def wait(self, topic: str, seconds: float, seen: int) -> bool:
        """Wait until the topic is woken or the next check is due. Return False on timeout."""
        woken = await super().wait(topic, min(seconds, self._every_s), seen)
        return woken or seconds > self._every_s


class _Waiter:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.event = asyncio.Event()
        self._loop = loop

    def release(self) -> None:
        # A closing loop has no waiters.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.event.set)
