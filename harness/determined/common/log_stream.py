"""Following a task's log: to its end, through servers and proxies that hang up early."""

import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from determined.common.http import MasterUnreachableError, Session
from determined.common.times import parsed, written

_REOPEN_AFTER_S = 1.0
_GIVE_UP_AFTER = 30  # reconnections in a row that nobody answered
_REMEMBERED = 5000
_PAGE = 1000  # the most lines that a server sends in one page
_OVERLAP = timedelta(seconds=10)
_MARGIN = 200  # lines before a tail that is followed: between them others may be stored yet

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
TERMINAL = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR", "STATE_DELETED")
Filters = Dict[str, Any]
Line = Dict[str, Any]


def from_level(level: Optional[str]) -> Optional[List[str]]:
    """Return this level and those above it, as the server filters by a list."""
    if level not in LEVELS:
        return None
    return [f"LOG_LEVEL_{name}" for name in LEVELS[LEVELS.index(level) :]]


def fetch(session: Session, path: str, filters: Filters) -> Iterator[Line]:
    yield from session.stream_lines("GET", f"/api/v1{path}/logs", params=filters)


def head(session: Session, path: str, filters: Filters, count: int) -> List[Line]:
    """Return the first lines. Servers take a limit of 0 for none: one line is asked for, and left out."""
    return list(fetch(session, path, {**filters, "limit": max(count, 1)}))[:count]


def tail(session: Session, path: str, filters: Filters, count: int) -> List[Line]:
    """Return the last lines, oldest first."""
    return head(session, path, {**filters, "orderBy": "ORDER_BY_DESC"}, count)[::-1]


def tail_to_follow(
    session: Session, path: str, filters: Filters, count: int
) -> Tuple[List[Line], List[Line]]:
    """Return the last lines, and with some before them what `follow` is to take as seen."""
    seen = tail(session, path, filters, count + _MARGIN)
    return seen[max(len(seen) - count, 0) :], seen


def trial_ended(session: Session, trial_id: int) -> Callable[[], bool]:
    return lambda: session.get(f"/api/v1/trials/{trial_id}")["trial"]["state"] in TERMINAL


def follow(
    session: Session,
    path: str,
    filters: Filters,
    ended: Callable[[], bool],
    seen: Optional[List[Line]] = None,
) -> Iterator[Line]:
    """Yield lines as they come, until the task has ended and its last line was yielded."""
    cursor = _Cursor(seen or [])
    silent = 0
    while True:
        finished = False
        try:
            finished = ended()
            for line in fetch(session, path, {**filters, **cursor.position(), "follow": True}):
                silent = 0
                if cursor.is_new(line):
                    yield line
            cursor.stream_ended()
        except MasterUnreachableError:
            silent += 1
            if silent > _GIVE_UP_AFTER:
                raise
            finished = False
        if finished:
            return
        time.sleep(_REOPEN_AFTER_S)


class _Cursor:
    """The place in a log at which to continue.

    A server that knows `afterId` sends the lines that arrived after that one, page by page and each page in order of
    time. Others get a time a little before the last line. Lines that were given before are left out here.
    """

    def __init__(self, lines: List[Line]) -> None:
        self._ids: Deque[str] = deque(maxlen=_REMEMBERED)
        self._latest = ""
        self._given = 0  # the newest line of the stream that is read
        for line in lines:
            self.is_new(line)
        # Ids are given out before they are committed: between these lines others may be stored yet.
        self._whole_until = min(self._numbers()[-_PAGE:], default=0)

    def is_new(self, line: Line) -> bool:
        id = str(line["id"])
        self._given = max(self._given, int(id) if id.isdigit() else 0)
        if id in self._ids:
            return False
        self._ids.append(id)
        self._latest = max(self._latest, str(line.get("timestamp") or ""))
        return True

    def stream_ended(self) -> None:
        """Note that the stream gave every line up to its newest."""
        self._whole_until = max(self._whole_until, self._given)

    def position(self) -> Filters:
        """Return where the next stream begins."""
        self._given = 0
        # Of a page that broke off, lines that arrived before the given ones may be missing.
        certain = self._numbers()[:-_PAGE]
        after = max([self._whole_until, *certain[-1:]])
        if not after:
            return {}
        start = written(parsed(self._latest) - _OVERLAP)
        return {"timestampAfter": start, "afterId": str(after)}

    def _numbers(self) -> List[int]:
        return sorted(int(id) for id in self._ids if id.isdigit())
