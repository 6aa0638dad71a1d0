"""Stretches of large files, as they are sent: read anew for each attempt, and checked by what was read."""

import contextlib
import io
from typing import Iterator

from determined.common.storage._crc import crc32
from determined.common.storage._memory import MemoryBudget

# What is read into so little is still in the processor's cache when it is summed up, encrypted and sent.
PIECE_BYTES = 256 * 1024


class FilePart:
    """One part of a file. `crc32` is that of what was last read of it as a whole."""

    def __init__(self, path: str, start: int, length: int, memory: MemoryBudget) -> None:
        self._path = path
        self._start = start
        self._length = length
        self._memory = memory
        self.crc32 = 0

    def __len__(self) -> int:
        return self._length

    def pieces(self) -> Iterator[memoryview]:
        """Piece by piece; each is valid until the next is asked for."""
        buffer = memoryview(bytearray(min(PIECE_BYTES, self._length)))
        crc, left = 0, self._length
        with open(self._path, "rb", buffering=0) as file:
            file.seek(self._start)
            while left:
                piece = buffer[:left]
                self._fill(file, piece)
                crc = crc32(piece, crc)
                left -= len(piece)
                yield piece
        self.crc32 = crc

    @contextlib.contextmanager
    def whole(self) -> Iterator[bytes]:
        """All at once, for a client that cannot take pieces, when so much memory may be held."""
        with self._memory.take(self._length):
            with open(self._path, "rb") as file:
                file.seek(self._start)
                body = file.read(self._length)
            if len(body) != self._length:
                raise self._changed()
            self.crc32 = crc32(body)
            yield body

    def _fill(self, file: io.FileIO, piece: memoryview) -> None:
        done = 0
        while done < len(piece):
            count = file.readinto(piece[done:])
            if not count:
                raise self._changed()
            done += count

    def _changed(self) -> OSError:
        return OSError(
            f"{self._path} changed while it was uploaded: it ends before byte "
            f"{self._start + self._length}; write a checkpoint's files before it is stored"
        )
