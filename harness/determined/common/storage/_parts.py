"""Parts of large files for uploads, and a limit of their memory.

Each attempt reads its part again and computes the checksum of these bytes."""

import contextlib
import io
import os
import threading
from typing import Any, ContextManager, Iterator, Protocol

# `isal` is several times faster than zlib. Only some images have it.
try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["FilePart", "MemoryBudget", "Part", "PartStream", "crc32"]


class MemoryBudget:
    """A number of bytes that transfers may hold at once. A part above the limit waits until it is the only one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        amount = min(max(size, 1), self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= amount)
            self._free -= amount
        try:
            yield
        finally:
            with self._changed:
                self._free += amount
                self._changed.notify_all()


class Part(Protocol):
    """A part of an object. Stores read it as a stream or at once, again for each attempt."""

    def __len__(self) -> int: ...

    def stream(self) -> ContextManager[Any]: ...

    def whole(self) -> ContextManager[bytes]: ...


class FilePart:
    """A part of a file. `crc32` is the checksum of the bytes that were read last."""

    def __init__(self, path: str, start: int, length: int, memory: MemoryBudget) -> None:
        self._path = path
        self._start = start
        self._length = length
        self._memory = memory
        self.crc32 = 0

    def __len__(self) -> int:
        return self._length

    @contextlib.contextmanager
    def stream(self) -> Iterator["PartStream"]:
        """Open the part for an SDK that sends while it reads. This needs little memory."""
        with open(self._path, "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < self._start + self._length:
                raise self.changed()
            stream = PartStream(self, file, self._start)
            yield stream
            self.crc32 = stream.crc32

    @contextlib.contextmanager
    def whole(self) -> Iterator[bytes]:
        """Read the part for an SDK that needs all bytes at once. Wait until the memory budget allows it."""
        with self._memory.reserve(self._length):
            with open(self._path, "rb") as file:
                file.seek(self._start)
                body = file.read(self._length)
            if len(body) != self._length:
                raise self.changed()
            self.crc32 = crc32(body)
            yield body

    def changed(self) -> OSError:
        return OSError(
            f"{self._path} changed while it was uploaded: it ends before byte "
            f"{self._start + self._length}; write a checkpoint's files before it is stored"
        )


class PartStream:
    """The file object that an SDK sends. Each attempt begins with `seek(0)`."""

    def __init__(self, part: FilePart, file: io.FileIO, start: int) -> None:
        self._part = part
        self._file = file
        self._start = start
        self.crc32 = 0
        self.seek(0)

    def __len__(self) -> int:
        return len(self._part)

    def tell(self) -> int:
        return self._file.tell() - self._start

    def seek(self, offset: int) -> None:
        self._file.seek(self._start + offset)
        self.crc32 = 0

    def read(self, size: int = -1) -> bytes:
        remaining = len(self) - self.tell()
        count = remaining if size < 0 else min(size, remaining)
        chunk = self._file.read(count)
        if count and not chunk:
            raise self._part.changed()
        self.crc32 = crc32(chunk, self.crc32)
        return chunk
