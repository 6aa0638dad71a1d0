"""Checksums of objects, computed in the order of their bytes."""

import contextlib
import hashlib
from typing import Protocol

with contextlib.suppress(ImportError):  # a part of google-cloud-storage
    import google_crc32c


class Checksum(Protocol):
    def update(self, data: memoryview) -> None: ...
    def copy(self) -> "Checksum": ...
    def text(self) -> str: ...


class _Digest:
    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._hash = hashlib.new(kind, usedforsecurity=False)

    def update(self, data: memoryview) -> None:
        self._hash.update(data)

    def copy(self) -> "_Digest":
        other = _Digest(self._kind)
        other._hash = self._hash.copy()
        return other

    def text(self) -> str:
        return f"{self._kind}:{self._hash.hexdigest()}"


class _PartsDigest:
    """The ETag of an object that was uploaded to S3 in parts: the MD5 of the parts' MD5s, and their number."""

    def __init__(self, part_size: int) -> None:
        self._part_size = part_size
        self._done: list[bytes] = []
        self._part = hashlib.md5(usedforsecurity=False)
        self._length = 0

    def update(self, data: memoryview) -> None:
        while data:
            piece = data[: self._part_size - self._length]
            self._part.update(piece)
            self._length += len(piece)
            data = data[len(piece) :]
            if self._length == self._part_size:
                self._finish_part()

    def _finish_part(self) -> None:
        self._done.append(self._part.digest())
        self._part, self._length = hashlib.md5(usedforsecurity=False), 0

    def copy(self) -> "_PartsDigest":
        other = _PartsDigest(self._part_size)
        other._done, other._part, other._length = list(self._done), self._part.copy(), self._length
        return other

    def text(self) -> str:
        parts = [*self._done, self._part.digest()] if self._length else self._done
        whole = hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
        return f"parts:{whole}-{len(parts)}"


class _Crc32c:
    def __init__(self, value: int = 0) -> None:
        self._value = value

    def update(self, data: memoryview) -> None:
        self._value = google_crc32c.extend(self._value, bytes(data))

    def copy(self) -> "_Crc32c":
        return _Crc32c(self._value)

    def text(self) -> str:
        return f"crc32c:{self._value:08x}"


def checksum_for(check: str, size: int, part_size: int) -> Checksum | None:
    """Return the checksum that compares with `check`, or None if it cannot be computed here."""
    kind, _, expected = check.partition(":")
    if kind in ("md5", "sha256"):
        return _Digest(kind)
    if kind == "crc32c" and "google_crc32c" in globals():
        return _Crc32c()
    if kind == "parts" and part_size > 0:
        count = -(-size // part_size)
        # With another number of parts, their sizes differ, and the checksum of the store cannot be computed.
        return _PartsDigest(part_size) if expected.endswith(f"-{count}") else None
    return None
