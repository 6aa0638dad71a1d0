"""Connect to a database that pauses, or is small: while it wakes, or is full, it is silent or refuses."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from pg8000.exceptions import DatabaseError, InterfaceError

PAUSE_S = 1.0
_LEAST_S = 1.0
SENTENCE = "the database is waking up"
# States of the database that end by themselves, by SQLSTATE.
_PASSING = {
    "57P03": SENTENCE,
    "53300": "all connections of the database are taken",
    # Aurora answers "no pg_hba.conf entry" during some resumes. A wrong password is 28P01, which is raised at once.
    "28000": f"{SENTENCE}, or does not admit this user",
}

Connect = Callable[..., Any]


class Asleep(Exception):
    """The database did not wake within the time that a caller waits."""


def connect_patiently(connect: Connect, arguments: Mapping[str, Any], wake_s: float) -> Any:
    """Connect; retry for `wake_s` while the database wakes. Other errors are raised at once.

    Raises Asleep if the last attempt timed out or got one of the `_PASSING` states."""
    limit = time.monotonic() + wake_s
    while True:
        left_s = max(limit - time.monotonic(), _LEAST_S)
        try:
            return connect(**{**arguments, "timeout": left_s})
        except (OSError, InterfaceError, DatabaseError) as e:
            state = _temporary_message(e)
            if isinstance(e, DatabaseError) and not state:
                raise
            if time.monotonic() + PAUSE_S >= limit:
                if state or _timed_out(e):
                    raise Asleep(state or SENTENCE) from e
                raise
        time.sleep(PAUSE_S)


def _temporary_message(e: Exception) -> str:
    """Return the message for a temporary state of the database, or "" for other errors."""
    fields = e.args[0] if e.args else None
    return _PASSING.get(str(fields.get("C")), "") if isinstance(fields, dict) else ""


def _timed_out(e: BaseException | None) -> bool:
    """Return whether a timeout caused an error, also if pg8000 wrapped it."""
    while e is not None:
        if isinstance(e, TimeoutError):
            return True
        e = e.__cause__ or e.__context__
    return False
