"""Keep the totals of long listings for some seconds: each page would count a hundred thousand rows again."""

import time
from collections import OrderedDict
from collections.abc import Hashable

# Shorter listings are counted for each page, which takes a few milliseconds.
LONG = 10_000
KEPT_S = 15.0
_MOST = 256


class Totals:
    """The totals of listings by subject. Each process has one object; its threads may use it at the same time."""

    def __init__(self) -> None:
        self._totals: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def get(self, subject: Hashable) -> int | None:
        until, total = self._totals.get(subject, (0.0, 0))
        return total if time.monotonic() < until else None

    def keep(self, subject: Hashable, total: int) -> None:
        if total < LONG:
            self._totals.pop(subject, None)
            return
        self._totals[subject] = (time.monotonic() + KEPT_S, total)
        while len(self._totals) > _MOST:
            self._totals.popitem(last=False)
