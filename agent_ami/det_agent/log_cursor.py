"""Store on disk how far the output of a container was read: the next process of the agent goes on there."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WIDTH = 64

_log = logging.getLogger(__name__)


class LogCursor:
    """A file that is written in its place, at each line.

    To rename a new file over it each time waits for the disk, where trainings write checkpoints at that moment.
    A disk that takes nothing holds up no reading: the next process reads some lines once more."""

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
        """Return what was written last; an empty text at first, and where the machine lost it."""
        try:
            return os.pread(self._open(), _WIDTH, 0).decode("ascii", "replace").strip("\0 ")
        except OSError as e:
            self._tell(e)
            return ""

    def write(self, place: str) -> None:
        """Write in one piece: this process may be killed at any time."""
        written = place.encode("ascii", "replace")
        if len(written) > _WIDTH:  # engines give times; what is longer is none
            return
        try:
            os.pwrite(self._open(), written.ljust(_WIDTH), 0)
        except OSError as e:
            self._tell(e)
        else:
            self._failed = False

    def _open(self) -> int:
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._fd

    def _tell(self, error: OSError) -> None:
        level = logging.DEBUG if self._failed else logging.WARNING
        _log.log(level, "how far a container's output was read cannot be noted: %s", error)
        self._failed = True

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
