"""Wake loops and long polls early. Without a wake, they run at the next minute."""

from typing import Protocol


class Waker(Protocol):
    def wake(self, topic: str) -> None:
        """Notify the waiters of a topic that it has changed.

        Topics: `schedule`, `provision`, `webhooks`, `agent:<id>`, `logs:<task>`, `allocation:<id>`,
        `operation:<trial>`, `searcher:<experiment>`. Call this after the commit. A lost wake only causes a delay."""
        ...


class NoWaker:
    """A `Waker` for processes without waiters."""

    def wake(self, topic: str) -> None:
        return None
