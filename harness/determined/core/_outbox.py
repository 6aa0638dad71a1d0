"""Send reports in order from a background thread, so that reporting does not block training."""

import collections
import logging
import threading
import time
import uuid
from typing import Deque, Optional, Tuple

from determined.common.connections import RETRY_STATUSES
from determined.common.http import APIError, MasterUnreachableError, Session

logger = logging.getLogger("determined.core")

MAX_WAITING_BYTES = 256 * 1024 * 1024
GIVE_UP_AFTER_S = 3600.0
PAUSE_S = 5.0

Report = Tuple[str, bytes, bool]  # path, body, whether a rejection is an error


class ReportRefused(RuntimeError):
    """The server rejected an earlier report. This is raised by the next call or by `close`."""


class Outbox:
    """An ordered queue of POST requests, and one slot for the newest progress.

    Callers block only while more than MAX_WAITING_BYTES of reports are undelivered, because an outage must not use
    up the machine's memory.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = threading.Condition()
        self._reports: Deque[Report] = collections.deque()
        self._latest: Optional[Report] = None
        self._waiting_bytes = 0
        self._sending = False
        self._closed = False
        self._refusal: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="determined-reports", daemon=True)
        self._thread.start()

    def put(self, path: str, body: bytes, *, required: bool = True) -> None:
        """Queue a report. The rejection of a report that is not required is only logged."""
        with self._changed:
            self._raise_refusal()
            if self._closed:
                raise RuntimeError("cannot report after the core context was closed")
            while self._waiting_bytes > MAX_WAITING_BYTES:
                self._changed.wait()
            self._reports.append((path, body, required))
            self._waiting_bytes += len(body)
            self._changed.notify_all()

    def put_latest(self, path: str, body: bytes) -> None:
        with self._changed:
            self._raise_refusal()
            if not self._closed:
                self._latest = (path, body, True)
                self._changed.notify_all()

    def flush(self, timeout_s: Optional[float] = None) -> None:
        """Wait until every report is stored. Raise if the server rejected one."""
        with self._changed:
            self._changed.wait_for(self._is_idle, timeout_s)
            self._raise_refusal()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        with self._changed:
            self._raise_refusal()

    def _is_idle(self) -> bool:
        return not self._reports and self._latest is None and not self._sending

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise ReportRefused(str(refusal)) from refusal

    def _run(self) -> None:
        while True:
            report = self._next()
            if report is None:
                self._session.close()
                return
            refusal = self._deliver(*report)
            with self._changed:
                self._sending = False
                self._refusal = self._refusal or refusal
                self._changed.notify_all()

    def _next(self) -> Optional[Report]:
        """Return the next report to send. Metrics are sent first, because newer progress replaces older progress."""
        with self._changed:
            self._changed.wait_for(lambda: self._reports or self._latest or self._closed)
            report: Optional[Report] = None
            if self._reports:
                report = self._reports.popleft()
                self._waiting_bytes -= len(report[1])
            elif self._latest:
                report, self._latest = self._latest, None
            self._sending = report is not None
            return report

    def _deliver(self, path: str, body: bytes, required: bool) -> Optional[BaseException]:
        try:
            deliver(self._session, path, body)
        except (APIError, MasterUnreachableError) as e:
            logger.error("a report to %s was not stored: %s", path, e)
            return e if required else None
        return None


def deliver(session: Session, path: str, body: bytes) -> None:
    """Send a report until it is stored. Raises APIError, and MasterUnreachableError after an hour."""
    deadline = time.monotonic() + GIVE_UP_AFTER_S
    # One key for all calls of the session, which would otherwise generate a new key for each call.
    once = {"Idempotency-Key": str(uuid.uuid4())}
    while True:
        try:
            session.post(path, body, headers=once)
            return
        except (APIError, MasterUnreachableError) as e:
            # A load balancer returns these statuses while the server is unavailable. They are not rejections.
            refused = isinstance(e, APIError) and e.status not in RETRY_STATUSES
            if refused or time.monotonic() > deadline:
                raise
            logger.warning("reports are waiting: %s", e)
            # The session retries by itself, except if it does not trust the server's certificate.
            time.sleep(PAUSE_S)
