"""A barrier for requests: that some are under way at once is then certain, or fails the test."""

import threading


class RequestBarrier:
    """Block threads until `size` have arrived. `held` says whether they did. Later threads pass."""

    def __init__(self, size: int, patience_s: float = 60.0) -> None:
        self.held = False
        self._missing = size
        self._patience_s = patience_s
        self._over = False
        self._changed = threading.Condition()

    def attend(self) -> None:
        with self._changed:
            if self._over:
                return
            self._missing -= 1
            if self._missing <= 0:
                self.held = self._over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over, self._patience_s)
            # The first timeout releases all threads, so that late ones wait only once.
            self._over = True
            self._changed.notify_all()
