"""Bound the bytes of transfers that are held in memory."""

import contextlib
import threading
from typing import Iterator


class MemoryBudget:
    """Bytes that may be held at once. A part larger than the whole budget goes alone."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def take(self, size: int) -> Iterator[None]:
        amount = min(max(size, 1), self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= amount)
            self._free -= amount
        try:
            yield
        finally:
            with self._changed:
                self._free += amount
                self._changed.notify_all()
