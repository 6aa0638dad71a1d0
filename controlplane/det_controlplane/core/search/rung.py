"""A rung of stopping ASHA: decide whether a loss is among the best 1/divisor of the rung."""

import base64
import heapq
import struct
from collections.abc import Iterable
from typing import Any, Protocol

from .history import RungCut


class Rung(Protocol):
    """Decide for one loss after the other whether its trial continues from a rung."""

    def __len__(self) -> int: ...

    def insert(self, loss: float) -> bool:
        """Record the loss and return True if its trial continues."""

    def cut(self) -> RungCut:
        """Return the cut that decided about the latest loss."""

    def remove(self, loss: float) -> None:
        """Remove one entry with this loss, because its trial had invalid hyperparameters."""

    def snapshot(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


class StoppingRung:
    """Keep two heaps on both sides of the cut. A decision takes logarithmic time, also with 100,000 losses."""

    __slots__ = ("_best", "_count", "_divisor", "_rest")

    def __init__(self, divisor: float) -> None:
        self._divisor = int(divisor) if divisor == int(divisor) else divisor
        self._count = 0
        self._best: list[float] = []  # negated, so the worst of the best is at the top
        self._rest: list[float] = []

    def __len__(self) -> int:
        return self._count

    def insert(self, loss: float) -> bool:
        """Record the loss and return True if it is among the best. It ranks before equal losses."""
        best = self._best
        self._count = count = self._count + 1
        cut = count // self._divisor or 1
        if cut == len(best):
            if loss > -best[0]:
                heapq.heappush(self._rest, loss)
                return False
            heapq.heappush(self._rest, -heapq.heapreplace(best, -loss))
            return True
        beaten = heapq.heappushpop(self._rest, loss)
        heapq.heappush(best, -beaten)
        return loss <= beaten

    def cut(self) -> RungCut:
        return RungCut(len(self._best), self._count, -self._best[0])

    def remove(self, loss: float) -> None:
        """Remove one entry with this loss. The cost is linear, but only late invalid hyperparameters need it."""
        losses = self.losses()
        losses.remove(loss)
        self._fill(losses)

    def losses(self) -> list[float]:
        """Return the losses of all entries, best first."""
        return sorted([-value for value in self._best] + self._rest)

    def snapshot(self) -> str:
        return pack(self.losses())

    def restore(self, state: str) -> None:
        self._fill(unpack(state))

    def _fill(self, ascending: list[float]) -> None:
        self._count = len(ascending)
        cut = min(self._count, int(self._count // self._divisor) or 1)
        self._best = [-loss for loss in reversed(ascending[:cut])]
        self._best.sort()
        self._rest = ascending[cut:]


def pack(numbers: Iterable[float]) -> str:
    """Encode doubles as base64. The encoding is exact and compact, and JSON columns can store infinities this way."""
    values = list(numbers)
    return base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode("ascii")


def unpack(text: Any) -> list[float]:
    raw = base64.b64decode(text)
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))
