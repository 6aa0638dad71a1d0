"""Limit the memory of transfers."""

import contextlib
import threading
from typing import Iterator


class MemoryBudget:
    """A number of bytes that transfers may hold at once. A part above the limit waits until it is the only one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def reserve(self, size: int) -> Iterator[None]:
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
