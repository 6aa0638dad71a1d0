"""Following a task's log: to its end, through servers and proxies that hang up early."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from determined.common.http import MasterUnreachableError, Session

from det_cli.connection import V1

_REOPEN_AFTER_S = 1.0
_GIVE_UP_AFTER = 30  # reconnections in a row that brought nothing because nobody answered
_REMEMBERED = 5000
_OVERLAP_S = 10

Filters = dict[str, Any]


def fetch(session: Session, path: str, filters: Filters) -> Iterator[dict[str, Any]]:
    yield from session.stream_lines("GET", f"{V1}{path}/logs", params=filters)


def tail(session: Session, path: str, filters: Filters, count: int) -> list[dict[str, Any]]:
    """The last lines, oldest first."""
    params = {**filters, "limit": count, "orderBy": "ORDER_BY_DESC"}
    return list(fetch(session, path, params))[::-1]


def follow(
    session: Session,
    path: str,
    filters: Filters,
    ended: Callable[[], bool],
    seen: "list[dict[str, Any]] | None" = None,
) -> Iterator[dict[str, Any]]:
    """Lines as they come, until the task has ended and its last line was given."""
    cursor = _Cursor(seen or [])
    silent = 0
    while True:
        finished = ended()
        try:
            for line in fetch(session, path, {**filters, **cursor.position(), "follow": True}):
                silent = 0
                if cursor.is_new(line):
                    yield line
        except MasterUnreachableError:
            silent += 1
            if silent > _GIVE_UP_AFTER:
                raise
            finished = False
        if finished:
            return
        time.sleep(_REOPEN_AFTER_S)


class _Cursor:
    """Where to take up: a little before the last line, leaving out what was given already."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self._ids: deque[str] = deque(maxlen=_REMEMBERED)
        self._last = ""
        for line in lines:
            self.is_new(line)

    def is_new(self, line: dict[str, Any]) -> bool:
        id = str(line["id"])
        if id in self._ids:
            return False
        self._ids.append(id)
        self._last = max(self._last, line.get("timestamp") or "")
        return True

    def position(self) -> Filters:
        if not self._last:
            return {}
        from datetime import timedelta

        from det_cli.times import parsed

        start = parsed(self._last) - timedelta(seconds=_OVERLAP_S)
        return {"timestampAfter": start.strftime("%Y-%m-%dT%H:%M:%SZ")}
