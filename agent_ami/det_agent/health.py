"""Check that this agent can start containers. It leaves service after a failed check and repeats the check."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from det_agent.runtime import StartFailed

# `provision.sh` writes it when it makes an image.
IMAGE_BUILT_AT = Path("/etc/determined/image-built-at")
FAILURES_IN_A_ROW = 3
FIRST_RECHECK_S = 10.0
LONGEST_RECHECK_S = 600.0

_log = logging.getLogger(__name__)


def uptime_s() -> float | None:
    """Return the seconds since this machine booted, with its sleep, or None if the system does not count them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else round(time.clock_gettime(clock), 1)


def image_age_s(path: Path = IMAGE_BUILT_AT) -> float | None:
    """Return the seconds since this machine's image was made, or None for images that do not say it."""
    try:
        built_at = datetime.fromisoformat(path.read_text().strip().replace("Z", "+00:00"))
        return max(0.0, round(time.time() - built_at.timestamp()))
    except (OSError, ValueError):
        return None


class Health:
    """The health of the agent. `out_of_service` is the reason why it gets no work, or '' while it is in service."""

    def __init__(
        self,
        check: Callable[[], None],
        on_change: Callable[[], None],
        first_recheck_s: float = FIRST_RECHECK_S,
        look: Callable[[], None] | None = None,
        look_s: float | None = None,
    ) -> None:
        """Set the full `check` and the cheap `look`, which runs every `look_s` seconds while in service."""
        self._check = check
        self._look, self._look_s = look, look_s if look else None
        self._on_change = on_change
        self._lock = threading.Lock()
        self._failures = 0
        self._first_recheck_s = self._recheck_s = first_recheck_s
        self._out_of_service = ""
        self._left_service = threading.Event()
        self._stop = threading.Event()

    @property
    def out_of_service(self) -> str:
        return self._out_of_service

    def check(self) -> None:
        """Run the full check now. Its result decides whether the agent is in service."""
        try:
            self._check()
        except StartFailed as e:
            self.leave_service(str(e))
        except Exception as e:
            # Only this thread can return the agent to service, so it must not end.
            _log.exception("the check of this machine failed")
            self.leave_service(f"the check of this machine failed: {e}")
        else:
            self._return_to_service()

    def start(self) -> None:
        threading.Thread(target=self._check_while_out, name="health", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        self._left_service.set()

    def leave_service(self, reason: str) -> None:
        """Take the agent out of service until its check passes."""
        if not self._out_of_service:
            _log.error("out of service: %s", reason)
        changed = self._out_of_service != reason
        self._out_of_service = reason
        self._left_service.set()
        if changed:
            self._on_change()

    def container_started(self) -> None:
        with self._lock:
            self._failures = 0
            self._recheck_s = self._first_recheck_s

    def container_failed_to_start(self, message: str) -> None:
        """Count a failure of this machine. Failures of a task or its image must not be counted."""
        with self._lock:
            self._failures += 1
            failures = self._failures
        if failures >= FAILURES_IN_A_ROW and not self._out_of_service:
            self.leave_service(f"{failures} containers in a row could not be started: {message}")

    def _check_while_out(self) -> None:
        while not self._stop.is_set():
            if not self._left_service.wait(self._look_s):
                self.look()
                continue
            if self._stop.wait(self.next_recheck_s()):
                return
            self.check()

    def look(self) -> str:
        """Run the cheap check now. A failure takes the agent out of service. Return the failure or ''."""
        try:
            if self._look is not None:
                self._look()
        except StartFailed as e:
            self.leave_service(str(e))
            return str(e)
        except Exception:
            _log.exception("the agent's look at its machine failed")
        return ""

    def next_recheck_s(self) -> float:
        """Return the pause before the next check, and double the following pause.

        An agent that passes its check but fails to start containers therefore returns less and less often."""
        with self._lock:
            due_s = self._recheck_s
            self._recheck_s = min(due_s * 2, LONGEST_RECHECK_S)
        return due_s

    def _return_to_service(self) -> None:
        with self._lock:
            self._failures = 0
        was_out = bool(self._out_of_service)
        self._out_of_service = ""
        self._left_service.clear()
        if was_out:
            _log.info("in service again")
            self._on_change()
