"""Virtual time: what happens next, in an order that only the seed decides."""

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random

_BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)

Action = Callable[[], None]


class Timeline:
    def __init__(self) -> None:
        self.seconds = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Action]] = []

    @property
    def start(self) -> datetime:
        return _BEGIN

    def now(self) -> datetime:
        return _BEGIN + timedelta(seconds=self.seconds)

    def after(self, delay_s: float, action: Action) -> None:
        heapq.heappush(self._due, (self.seconds + delay_s, next(self._order), action))

    def next(self) -> Action:
        """Return the next action; time moves on to it."""
        at, _, action = heapq.heappop(self._due)
        self.seconds = max(self.seconds, at)
        return action

    def take(
        self, is_wanted: Callable[[Action], bool], within_s: float, rng: Random
    ) -> Action | None:
        """Take an action of the near future that happens now, while another is still being carried out."""
        soon = sorted(e for e in self._due if e[0] <= self.seconds + within_s and is_wanted(e[2]))
        if not soon:
            return None
        action = rng.choice(soon)
        self._due.remove(action)
        heapq.heapify(self._due)
        return action[2]
