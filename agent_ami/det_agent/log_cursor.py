"""Store the read position of a container's output on disk. The next process of the agent continues there."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WIDTH = 64

_log = logging.getLogger(__name__)


class LogCursor:
    """A file that is overwritten in place for each line.

    Renaming a new file would wait for the disk, which is busy when trainings write checkpoints. A failed write does not
    block reading: the next process reads some lines twice."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._failed = False

    @classmethod
    @contextmanager
    def at(cls, path: Path) -> Iterator["LogCursor"]:
        cursor = cls(path)
        try:
            yield cursor
        finally:
            cursor._close()

    def read(self) -> str:
        """Return the last written position, or '' before the first write."""
        try:
            return os.pread(self._open(), _WIDTH, 0).decode("ascii", "replace").strip("\0 ")
        except OSError as e:
            self._log_error(e)
            return ""

    def write(self, place: str) -> None:
        """Write the position in a single call, because this process may be killed at any time."""
        content = place.encode("ascii", "replace")
        if len(content) > _WIDTH:  # not a valid cursor, because cursors are timestamps or numbers
            return
        try:
            os.pwrite(self._open(), content.ljust(_WIDTH), 0)
        except OSError as e:
            self._log_error(e)
        else:
            self._failed = False

    def _open(self) -> int:
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._fd

    def _log_error(self, error: OSError) -> None:
        level = logging.DEBUG if self._failed else logging.WARNING
        _log.log(level, "how far a container's output was read cannot be noted: %s", error)
        self._failed = True

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
