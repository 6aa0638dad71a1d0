"""Follow a task's log to its end, reconnecting when servers or proxies close the stream early."""

import time
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from determined.common.connections import pauses
from determined.common.http import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MasterUnreachableError,
    Session,
    UntrustedMasterError,
)
from determined.common.times import parsed, written

_REOPEN_AFTER_S = 1.0
_GIVE_UP_AFTER = 30  # failed reconnections in a row
_REMEMBERED = 5000
_PAGE = 1000  # the most lines that a server sends in one page
_OVERLAP = timedelta(seconds=10)
_MARGIN = 200  # extra lines before a followed tail: lines between them may not be stored yet

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
TERMINAL = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR", "STATE_DELETED")
Filters = Dict[str, Any]
Line = Dict[str, Any]


def from_level(level: Optional[str]) -> Optional[List[str]]:
    """Return this level and all higher levels, because the server filters by a list."""
    if level not in LEVELS:
        return None
    return [f"LOG_LEVEL_{name}" for name in LEVELS[LEVELS.index(level) :]]


def fetch(session: Session, path: str, filters: Filters) -> Iterator[Line]:
    yield from session.stream_lines("GET", f"/api/v1{path}/logs", params=filters)


def head(session: Session, path: str, filters: Filters, count: int) -> List[Line]:
    """Return the first lines. A lost connection is retried.

    A limit of 0 means no limit, so at least one line is requested and then dropped."""
    wanted = {**filters, "limit": max(count, 1)}
    pause_s = pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    for _ in range(session.retries):
        try:
            return list(fetch(session, path, wanted))[:count]
        except UntrustedMasterError:
            raise
        except MasterUnreachableError:
            time.sleep(next(pause_s))
    return list(fetch(session, path, wanted))[:count]


def tail(session: Session, path: str, filters: Filters, count: int) -> List[Line]:
    """Return the last lines, oldest first."""
    return head(session, path, {**filters, "orderBy": "ORDER_BY_DESC"}, count)[::-1]


def tail_to_follow(
    session: Session, path: str, filters: Filters, count: int
) -> Tuple[List[Line], List[Line]]:
    """Return the last lines, and these lines with some earlier ones for the `seen` argument of `follow`."""
    last_lines = tail(session, path, filters, count + _MARGIN)
    return last_lines[max(len(last_lines) - count, 0) :], last_lines


def trial_ended(session: Session, trial_id: int) -> Callable[[], bool]:
    return lambda: session.get(f"/api/v1/trials/{trial_id}")["trial"]["state"] in TERMINAL


def follow(
    session: Session,
    path: str,
    filters: Filters,
    ended: Callable[[], bool],
    seen: Optional[List[Line]] = None,
) -> Iterator[Line]:
    """Yield lines as they arrive, until the task has ended and its last line was yielded."""
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
    """The position in a log at which to continue.

    A server that supports `afterId` sends the lines that arrived after that line, in pages sorted by time. Other
    servers get a time shortly before the last line. Lines that were already yielded are filtered out here.
    """

    def __init__(self, lines: List[Line]) -> None:
        self._ids: Deque[str] = deque(maxlen=_REMEMBERED)
        self._latest = ""
        self._newest = 0  # the largest line id of the current stream
        for line in lines:
            self.is_new(line)
        # Ids are assigned before their transactions commit, so lines between these ids may not be stored yet.
        self._complete_until = min(self._numbers()[-_PAGE:], default=0)

    def is_new(self, line: Line) -> bool:
        id = str(line["id"])
        self._newest = max(self._newest, int(id) if id.isdigit() else 0)
        if id in self._ids:
            return False
        self._ids.append(id)
        self._latest = max(self._latest, str(line.get("timestamp") or ""))
        return True

    def stream_ended(self) -> None:
        """Record that the stream sent every line up to its newest."""
        self._complete_until = max(self._complete_until, self._newest)

    def position(self) -> Filters:
        """Return the query parameters at which the next stream begins."""
        self._newest = 0
        # If a page was interrupted, lines that arrived earlier than its received lines may be missing.
        certain = self._numbers()[:-_PAGE]
        after = max([self._complete_until, *certain[-1:]])
        if not after:
            return {}
        start = written(parsed(self._latest) - _OVERLAP)
        return {"timestampAfter": start, "afterId": str(after)}

    def _numbers(self) -> List[int]:
        return sorted(int(id) for id in self._ids if id.isdigit())
