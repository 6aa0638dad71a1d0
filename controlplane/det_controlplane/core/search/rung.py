"""A rung of stopping ASHA: tell whether a loss is among the best 1/divisor of those seen here."""

import base64
import heapq
import struct
from collections.abc import Iterable
from typing import Any, Protocol

from .history import RungCut


class Rung(Protocol):
    """Decides, one loss after the other, which trials go on from a rung."""

    def __len__(self) -> int: ...

    def insert(self, loss: float) -> bool:
        """Record the loss; true when its trial goes on."""

    def cut(self) -> RungCut:
        """Tell by what the latest loss was judged."""

    def remove(self, loss: float) -> None:
        """Forget one entry of this loss: its trial's hyperparameters were invalid."""

    def snapshot(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


class StoppingRung:
    """Keeps two heaps that meet at the cut: deciding on the 100,000th loss is as cheap as on the 100th."""

    __slots__ = ("_best", "_count", "_divisor", "_rest")

    def __init__(self, divisor: float) -> None:
        self._divisor = int(divisor) if divisor == int(divisor) else divisor
        self._count = 0
        self._best: list[float] = []  # negated, so the worst of the best is on top
        self._rest: list[float] = []

    def __len__(self) -> int:
        return self._count

    def insert(self, loss: float) -> bool:
        """Record the loss, before its equals; true when it is among those that continue."""
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
        """Forget one entry of this loss. Linear, but only for invalid hyperparameters found late."""
        losses = self.losses()
        losses.remove(loss)
        self._fill(losses)

    def losses(self) -> list[float]:
        """Return the losses of all entries, best first."""
        return sorted([-negated for negated in self._best] + self._rest)

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
    """Encode doubles as base64: exact, compact, and infinities survive JSON columns."""
    values = list(numbers)
    return base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode("ascii")


def unpack(text: Any) -> list[float]:
    raw = base64.b64decode(text)
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))
