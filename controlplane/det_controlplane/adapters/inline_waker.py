"""For hosts that die after each answer: what a request woke runs at its end, in the same process."""

import threading


class InlineWaker:
    """Collects topics; the host takes them when the request is answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: set[str] = set()

    def wake(self, topic: str) -> None:
        with self._lock:
            self._topics.add(topic)

    def take(self) -> set[str]:
        """The topics woken since the last time."""
        with self._lock:
            taken, self._topics = self._topics, set()
        return taken
