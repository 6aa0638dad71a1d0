"""Store on disk how far the output of a container was read: the next process of the agent goes on there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WIDTH = 64


class LogCursor:
    """A file that is written in its place, at each line.

    To rename a new file over it each time waits for the disk, where trainings write checkpoints at that moment."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    @contextmanager
    def at(cls, path: Path) -> Iterator["LogCursor"]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield cls(fd)
        finally:
            os.close(fd)

    def read(self) -> str:
        """Return what was written last; an empty text at first, and where the machine lost it."""
        return os.pread(self._fd, _WIDTH, 0).decode("ascii", "replace").strip("\0 ")

    def write(self, place: str) -> None:
        """Write in one piece: this process may be killed at any time."""
        written = place.encode("ascii", "replace")
        if len(written) <= _WIDTH:  # engines give times; what is longer is none
            os.pwrite(self._fd, written.ljust(_WIDTH), 0)
