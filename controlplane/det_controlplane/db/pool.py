"""Connections that are open already, the warmest first."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pg8000.exceptions import DatabaseError, InterfaceError

from det_controlplane.db.prepared import PreparedConnection

_LIFE_S = 600.0
_PATIENCE_S = 30.0


class Pool:
    """Opens up to `most` connections and keeps up to `kept` for the next who asks."""

    def __init__(self, connect: Callable[[], PreparedConnection], *, kept: int, most: int) -> None:
        self._connect = connect
        self._kept = kept
        self._places = threading.Semaphore(most)
        self._idle: list[tuple[PreparedConnection, float]] = []  # and since when
        self._born: dict[PreparedConnection, float] = {}

    def take(self) -> PreparedConnection:
        if not self._places.acquire(timeout=_PATIENCE_S):
            raise InterfaceError(f"no connection became free in {_PATIENCE_S:.0f} s")
        try:
            while True:
                try:
                    connection, since = self._idle.pop()
                except IndexError:
                    return self._opened()
                now = time.monotonic()
                is_young = now - self._born.get(connection, 0.0) < _LIFE_S
                if is_young and connection.is_alive(now - since):
                    return connection
                self._close(connection)
        except BaseException:
            self._places.release()
            raise

    def give(self, connection: PreparedConnection) -> None:
        """Back, without an open transaction: whatever happened, the next borrower finds none."""
        try:
            usable = connection in self._born and self._rolled_back(connection)
            if usable and len(self._idle) < self._kept:
                self._idle.append((connection, time.monotonic()))
            else:
                self._close(connection)
        finally:
            self._places.release()

    def clear(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        self._born.clear()
        while self._idle:
            with suppress(IndexError):
                self._close(self._idle.pop()[0])

    def _opened(self) -> PreparedConnection:
        connection = self._connect()
        self._born[connection] = time.monotonic()
        return connection

    def _rolled_back(self, connection: PreparedConnection) -> bool:
        if not connection.broken:
            with suppress(OSError, InterfaceError, DatabaseError):
                connection.rollback()
                return True
        return False

    def _close(self, connection: PreparedConnection) -> None:
        self._born.pop(connection, None)
        with suppress(OSError, InterfaceError):
            connection.close()
