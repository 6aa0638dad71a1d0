"""Read a process's output, and detect when all of it was read even if the pipe stays open."""

import array
import fcntl
import os
import select
import termios
from typing import IO

CHUNK_BYTES = 65536


class PipeReader:
    """The reading end of a pipe. One thread reads from it and other threads watch it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe  # keeps the descriptor open, so that its number is not reused
        self._fd = pipe.fileno()
        self._is_processing = False
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def read(self) -> bytes:
        """Return the next bytes, or b"" at the end. Calling it means that all earlier bytes were processed."""
        self._is_processing = False
        self._poll.poll()
        # Set before the read, so that bytes always count as either in the pipe or in processing.
        self._is_processing = True
        return os.read(self._fd, CHUNK_BYTES)

    def is_behind(self) -> bool:
        """Return whether some written bytes were not processed yet. Timeouts cannot decide this on a busy machine."""
        return self._waiting_bytes() > 0 or self._is_processing

    def _waiting_bytes(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, count)
        return count[0]
