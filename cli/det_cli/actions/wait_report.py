"""Report why a job waits while a command waits for it: after five seconds, and when the reason changes."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from determined.common.http import APIError, MasterUnreachableError, Session

from det_cli.connection import V1
from det_cli.render import say

_PATIENCE_S = 5.0
_QUEUED_POLL_S, _RUNNING_POLL_S = 2.0, 15.0
_THREAD_POLL_S = 1.0
_WAITING = ("QUEUED", "WAITING")


class WaitReport:
    """Prints the answer of `det why` for an experiment, trial or task that waits."""

    def __init__(
        self, session: Session, kind: str, id: object, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._path = f"{V1}/why/{kind}/{id}"
        self._now = now
        self._next_check = 0.0
        self._waits_since: float | None = None
        self._last_sentence = ""

    def check(self) -> None:
        """Read the reason, at most every two seconds, and print it if it is new and the wait is not short."""
        now = self._now()
        if now < self._next_check:
            return
        reason = self._reason()
        if reason is None:
            self._waits_since, self._last_sentence = None, ""
            self._next_check = now + _RUNNING_POLL_S
            return
        self._next_check = now + _QUEUED_POLL_S
        if self._waits_since is None:
            self._waits_since = now
        # A TensorBoard without metrics waits for other work, which takes longer than a start.
        patience_s = 0.0 if reason.get("code") == "NO_METRICS" else _PATIENCE_S
        sentence = reason["sentence"]
        if now - self._waits_since >= patience_s and sentence != self._last_sentence:
            self._last_sentence = sentence
            say(f"It waits: {sentence}.")

    def _reason(self) -> "dict[str, Any] | None":
        """Return the reason of the wait, or None for a job that does not wait or whose reason cannot be read."""
        try:
            reasons = self._session.get(self._path)["reasons"]
        except (APIError, MasterUnreachableError):
            return None
        return next((r for r in reasons if r["state"] in _WAITING), None)


@contextlib.contextmanager
def reporting(session: Session, kind: str, id: object) -> Iterator[None]:
    """Report the waits of a job in a thread, while the caller prints its log."""
    report, ended = WaitReport(session, kind, id), threading.Event()

    def watch() -> None:
        while not ended.wait(_THREAD_POLL_S):
            report.check()

    # A daemon, because a request without an answer must not delay the end of the command.
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
