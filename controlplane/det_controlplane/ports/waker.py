"""Starts the loops early: the minute tick is only the safety net."""

from typing import Protocol


class Waker(Protocol):
    def wake(self, topic: str) -> None:
        """Tell whoever waits for a topic that it changed.

        Topics: `schedule`, `provision`, `webhooks`, `agent:<id>`, `logs:<task>`, `allocation:<id>`,
        `operation:<trial>`, `searcher:<experiment>`. Called after commit. Losing a wake must only cost time."""
        ...


class NoWaker:
    """Implements `Waker` where nothing waits for a topic."""

    def wake(self, topic: str) -> None:
        return None
