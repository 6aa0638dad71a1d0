"""Reading what a process writes, and knowing when all of it was read although the pipe stays open."""

import array
import fcntl
import os
import select
import termios
from typing import IO

CHUNK_BYTES = 65536


class PipeReader:
    """The reading end of a pipe, read by one thread and watched by others."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe  # held open: another file would take its number
        self._fd = pipe.fileno()
        self._in_hand = False
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def read(self) -> bytes:
        """Return the next bytes, b"" at the end. The call says that earlier bytes were dealt with."""
        self._in_hand = False
        self._poll.poll()
        # Before the read: at no moment are bytes neither in the pipe nor in hand.
        self._in_hand = True
        return os.read(self._fd, CHUNK_BYTES)

    def is_behind(self) -> bool:
        """Return whether bytes were written that are not dealt with yet: clocks do not tell on a busy machine."""
        return self._waiting_bytes() > 0 or self._in_hand

    def _waiting_bytes(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, count)
        return count[0]
