"""Connect to a database that pauses: for the seconds that it takes to wake it is silent, or refuses."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from pg8000.exceptions import DatabaseError, InterfaceError

PAUSE_S = 1.0
_LEAST_S = 1.0
_STARTING_UP = "57P03"
SENTENCE = "the database is waking up"

Connect = Callable[..., Any]


class Asleep(Exception):
    """The database did not wake within the time that a caller waits."""


def connect_patiently(connect: Connect, arguments: Mapping[str, Any], wake_s: float) -> Any:
    """Connect, and try again until `wake_s` are over; what is no matter of waking is raised at once.

    Raises Asleep when nothing else than silence or "starting up" was heard until then."""
    limit = time.monotonic() + wake_s
    while True:
        left_s = max(limit - time.monotonic(), _LEAST_S)
        try:
            return connect(**{**arguments, "timeout": left_s})
        except (OSError, InterfaceError, DatabaseError) as e:
            if isinstance(e, DatabaseError) and not _starting_up(e):
                raise
            if time.monotonic() + PAUSE_S >= limit:
                if _starting_up(e) or _timed_out(e):
                    raise Asleep(SENTENCE) from e
                raise
        time.sleep(PAUSE_S)


def _starting_up(e: Exception) -> bool:
    told = e.args[0] if e.args else None
    return isinstance(told, dict) and told.get("C") == _STARTING_UP


def _timed_out(e: BaseException | None) -> bool:
    """Tell whether a wait that ended is the cause, also of what pg8000 made of it."""
    while e is not None:
        if isinstance(e, TimeoutError):
            return True
        e = e.__cause__ or e.__context__
    return False
