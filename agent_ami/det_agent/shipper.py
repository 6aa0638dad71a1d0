"""Send the spooled logs in compressed batches: at once after a silence, at intervals under load.

The control plane sets the interval. Where requests cost money, lines without followers are collected.
"""

import logging
import threading
import time

from determined.common.connections import pauses
from determined.common.http import APIError, MasterUnreachableError

from det_agent.client import ControlPlane
from det_agent.spool import MAX_BATCH_BYTES, MAX_BATCH_LINES, Batch, Spool

FIRST_LINGER_S = 0.1
STEADY_INTERVAL_S = 1.0
LONGEST_INTERVAL_S = 60.0
LONGEST_BACKOFF_S = 15.0
AWAITED_BACKOFF_S = 0.5  # while the end of a container waits for its last lines
DISK_PAUSE_S = 5.0
LAST_REQUEST_S = 5.0  # how long a stop waits for the current request
# Statuses that a retry may change. Retrying other errors would block all later lines.
TRY_AGAIN = frozenset({401, 408, 409, 425, 429})

_log = logging.getLogger(__name__)


class LogShipper:
    def __init__(self, spool: Spool, control_plane: ControlPlane) -> None:
        self._spool = spool
        self._control_plane = control_plane
        self._hurry = threading.Event()
        self._stop = threading.Event()
        self._max_lines = MAX_BATCH_LINES
        self._interval_s = STEADY_INTERVAL_S
        self._awaited_until = 0.0
        self._thread = threading.Thread(target=self._run, name="log-shipper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def pace(self, within_s: float) -> None:
        """Set the interval between batches. A shorter interval sends the waiting lines at once."""
        interval_s = min(max(within_s, STEADY_INTERVAL_S), LONGEST_INTERVAL_S)
        shorter, self._interval_s = interval_s < self._interval_s, interval_s
        if shorter:
            self._hurry.set()

    def flush(self, timeout_s: float) -> bool:
        """Send the present lines at once. Return whether the control plane accepted them in time.

        Later lines are not waited for, because a container with much output must not delay the end of others."""
        position = self._spool.written()
        self._awaited_until = max(self._awaited_until, time.monotonic() + timeout_s)
        self._hurry.set()
        return self._spool.wait_until_sent(position, timeout_s)

    def stop(self, timeout_s: float) -> None:
        self.flush(timeout_s)
        self._stop.set()
        self._hurry.set()
        self._spool.interrupt()
        if self._thread.is_alive():
            self._thread.join(LAST_REQUEST_S)

    def _run(self) -> None:
        last_sent = -LONGEST_INTERVAL_S
        disk_level = logging.WARNING
        while not self._stop.is_set():
            if not self._spool.wait_for_lines(10.0, self._stop):
                continue
            quiet_s = time.monotonic() - last_sent
            hurried = self._hurry.wait(max(FIRST_LINGER_S, self._interval_s - quiet_s))
            # Clear this before sending. A later flush may have lines that this send does not include.
            self._hurry.clear()
            try:
                self._send_batches(to_the_last=hurried)
            except OSError as e:
                _log.log(disk_level, "log lines wait, the spool cannot be read or written: %s", e)
                disk_level = logging.DEBUG
                self._stop.wait(DISK_PAUSE_S)
            else:
                disk_level = logging.WARNING
            last_sent = time.monotonic()

    def _send_batches(self, *, to_the_last: bool) -> None:
        while not self._stop.is_set():
            batch = self._spool.next_batch(self._max_lines, MAX_BATCH_BYTES)
            if batch is None or not self._send(batch):
                return
            if len(batch.lines) < self._max_lines and not to_the_last:
                return

    def _send(self, batch: Batch) -> bool:
        """Deliver a batch with retries. Return False if the agent stops first."""
        level = logging.WARNING
        for pause_s in pauses(0.5, LONGEST_BACKOFF_S):
            if self._stop.is_set():
                break
            try:
                self._control_plane.ship_logs(batch.id, batch.lines)
            except (APIError, MasterUnreachableError) as e:
                if isinstance(e, APIError) and 400 <= e.status < 500 and e.status not in TRY_AGAIN:
                    _log.warning("%d log lines were refused and dropped: %s", len(batch.lines), e)
                else:
                    _log.log(level, "log lines wait in the spool: %s", e)
                    level = logging.DEBUG
                    asked_s = getattr(e, "retry_after_s", 0.0)
                    self._stop.wait(asked_s)
                    self._back_off(pause_s - asked_s)
                    continue
            self._spool.acknowledge(batch)
            return True
        return False

    def _back_off(self, pause_s: float) -> None:
        """Wait for the next attempt. The wait is short while a flush waits for the lines."""
        until = time.monotonic() + pause_s
        while (remaining_s := until - time.monotonic()) > 0:
            stopped = self._stop.wait(min(remaining_s, AWAITED_BACKOFF_S))
            if stopped or time.monotonic() < self._awaited_until:
                return
