"""The session tokens of containers, and the allocations that should save a checkpoint and exit."""

import threading
from collections.abc import Iterable

from det_agent.runtime import ContainerKey


class ContainerSessions:
    """Find containers by session token, and let them wait for preemption."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._by_id: dict[str, ContainerKey] = {}
        self._preempting: frozenset[str] = frozenset()
        self._stopped = False

    def open(self, key: ContainerKey) -> None:
        with self._changed:
            self._by_id[key.id] = key

    def close(self, container_id: str) -> None:
        with self._changed:
            self._by_id.pop(container_id, None)
            self._changed.notify_all()

    def owner_of(self, tokens: Iterable[str]) -> ContainerKey | None:
        presented = {token for token in tokens if token}
        with self._changed:
            return next((k for k in self._by_id.values() if k.session_token in presented), None)

    def set_preempting(self, allocation_ids: frozenset[str]) -> None:
        with self._changed:
            if allocation_ids != self._preempting:
                self._preempting = allocation_ids
                self._changed.notify_all()

    def wait_for_preemption(self, key: ContainerKey, timeout_s: float) -> bool:
        """Return True when the allocation should exit, and False on timeout or when the container has ended."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    key.allocation_id in self._preempting
                    or key.id not in self._by_id
                    or self._stopped
                ),
                timeout_s,
            )
            return key.allocation_id in self._preempting

    def stop_waiting(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
