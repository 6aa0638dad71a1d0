"""Search incoming log lines for users' patterns, within a limit of time, and drop patterns that take too long."""

import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from det_controlplane.core.patterns import LOOK_S, PatternSearch, TooCostly

T = TypeVar("T")

log = logging.getLogger("det.logs")

# Processor time for all tasks of a request. Single lines may double it.
ALL_S = 4.0
_MOST_DROPPED = 4096
# Tasks and patterns, the oldest first.
_dropped: "OrderedDict[tuple[str, str], None]" = OrderedDict()


@dataclass(frozen=True, slots=True)
class DroppedPattern:
    """A pattern that this process looks for no longer in the lines of a task."""

    task_id: str
    sentence: str


class LogSearch:
    """The search of one request's lines: each of its tasks has a share of the time, which no other task uses up."""

    def __init__(self, tasks: int, clock: Callable[[], float] = time.thread_time) -> None:
        share_s = min(LOOK_S, ALL_S / max(tasks, 1))
        self._looks: dict[str, PatternSearch] = defaultdict(lambda: PatternSearch(clock, share_s))
        self._spent_s, self._passed_over = 0.0, 0
        self.dropped: list[DroppedPattern] = []

    def first(
        self,
        task_id: str,
        pattern: str,
        named: str,
        lines: Iterable[T],
        is_match: Callable[[T], bool],
    ) -> T | None:
        """Return the first line of a task that matches. `named` describes the pattern in messages."""
        key = (task_id, pattern)
        if key in _dropped:
            return None
        if self._spent_s > 2 * ALL_S:
            self._passed_over += 1
            return None
        look = self._looks[task_id]
        before_s = look.spent_s
        try:
            return look.first(lines, is_match)
        except TooCostly:
            self._drop(key, named)
            return None
        finally:
            self._spent_s += look.spent_s - before_s

    def _drop(self, key: tuple[str, str], owner: str) -> None:
        _dropped[key] = None
        while len(_dropped) > _MOST_DROPPED:
            _dropped.popitem(last=False)
        sentence = (
            f"the pattern of {owner} takes too long to search for:"
            " lines of this task are no longer searched for it"
        )
        self.dropped.append(DroppedPattern(key[0], sentence))
        log.warning("task %s: %s", key[0], sentence)

    def log_unsearched_patterns(self) -> None:
        unsearched = self._passed_over + sum(look.unsearched for look in self._looks.values())
        if unsearched:
            log.warning("%d patterns were not searched for: others took too long", unsearched)
