"""Runs the tick in this process: at once when woken, at its next due time, and rarely otherwise."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from det_controlplane.db.engine.errors import TryAgain

log = logging.getLogger("det.tick")

SAFETY_NET_S = 60.0
# A flood of wakes is one tick; where a tick takes long, since much is waiting, it rests in proportion.
_SPACING_S, _LONGEST_SPACING_S = 0.02, 0.5
# The rest of a loop that mostly waits for answers of others: a slow webhook does not load the database.
SHORT_REST_S = _SPACING_S
_REST = 8
_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 30.0


class TickLoop:
    """Run `tick` in a loop. It returns the seconds until work is due, or None if no work is planned."""

    def __init__(
        self, tick: Callable[[], float | None], longest_rest_s: float = _LONGEST_SPACING_S
    ) -> None:
        self._tick = tick
        self._longest_rest_s = longest_rest_s
        self._woken = threading.Event()
        self._stopping = False
        self._retry_s = _FIRST_RETRY_S

    def wake(self) -> None:
        self._woken.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="tick", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping = True
            self._woken.set()
            thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            start = time.monotonic()
            pause_s = self._once()
            took_s = time.monotonic() - start
            # Wakes of these few milliseconds share the next tick.
            time.sleep(min(max(_SPACING_S, _REST * took_s), self._longest_rest_s))
            self._woken.wait(pause_s)

    def _once(self) -> float:
        try:
            due_s = self._tick()
        except TryAgain as e:
            # A tick that collided wrote nothing. The next tick does its work.
            log.info("the tick collided with another transaction; again at once: %s", e)
            return _SPACING_S
        except Exception:
            log.exception("the tick failed; again in %.1f s", self._retry_s)
            pause_s, self._retry_s = self._retry_s, min(self._retry_s * 2, _LAST_RETRY_S)
            return pause_s
        self._retry_s = _FIRST_RETRY_S
        return SAFETY_NET_S if due_s is None else min(max(due_s, 0.0), SAFETY_NET_S)
