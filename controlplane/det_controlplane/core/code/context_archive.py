"""Look through the tar.gz of a model definition without unpacking it: a small archive can stand for gigabytes."""

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = 512
MAX_UNPACKED = 400 * 1024 * 1024
MAX_ENTRIES = 50_000
# Text packs to a tenth; what packs to a hundredth is made to do so. Small archives may.
MAX_RATIO, _SMALL = 100, 32 * 1024 * 1024
LONGEST_PATH = 4096  # bytes, as Linux has it
_MAX_EXTENSION = 4 * LONGEST_PATH  # of a header: long names, not a program's memory
# In a header by PAX: another size than the one that is counted, behind which entries hide.
_OTHER_SIZE = re.compile(rb"(?:^|\n)\d+ size=")
_EXTENSIONS = b"xgLK"
_KINDS = b"0\x0012345" + _EXTENSIONS
_CHUNK = 1 << 20


class BadArchive(Exception):
    """An archive that cannot be read or is refused; the message says why."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    size: int
    entries: int


def check(content: bytes) -> Unpacked:
    """Return the unpacked size of an archive; raises `BadArchive` for one that is too large."""
    counted = _Counted(content)
    entries = sum(1 for kind, _ in _headers(counted) if kind not in _EXTENSIONS)
    counted.drain()
    return Unpacked(counted.size, entries)


class _Counted:
    """Unpacks an archive and counts its bytes, up to a limit."""

    def __init__(self, content: bytes) -> None:
        self.size = 0
        self._limit = min(MAX_UNPACKED, max(_SMALL, MAX_RATIO * len(content)))
        self._file = gzip.GzipFile(fileobj=io.BytesIO(content))

    def read(self, count: int) -> bytes:
        try:
            found = self._file.read(count)
        except (OSError, EOFError, zlib.error) as e:
            raise BadArchive(f"it is not a whole tar.gz: {e}") from e
        self.size += len(found)
        if self.size > self._limit:
            raise BadArchive(f"it unpacks to more than {self._limit >> 20} MiB")
        return found

    def skip(self, count: int) -> None:
        while count > 0:
            found = self.read(min(count, _CHUNK))
            if not found:
                raise BadArchive("it ends in the middle of a file")
            count -= len(found)

    def drain(self) -> None:
        while self.read(_CHUNK):
            pass


def _headers(archive: _Counted) -> Iterator[tuple[int, int]]:
    """Yield kind and size of each entry."""
    for count in range(2 * MAX_ENTRIES):
        header = archive.read(BLOCK)
        if len(header) < BLOCK or not header.strip(b"\0"):
            return
        kind, size = header[156], _number(header[124:136])
        if kind not in _KINDS:
            raise BadArchive(f"it has an entry of a kind that is not taken ({chr(kind)!r})")
        padded = size + -size % BLOCK
        if kind in _EXTENSIONS:
            if size > _MAX_EXTENSION:
                raise BadArchive("the header of a file is too long")
            told = archive.read(padded)
            if b"GNU.sparse" in told:
                raise BadArchive("it has a sparse file, whose size is not what it holds")
            if _OTHER_SIZE.search(told):
                raise BadArchive("it has a file with two sizes")
        else:
            archive.skip(padded)
        if count >= MAX_ENTRIES:
            raise BadArchive(f"it has more than {MAX_ENTRIES} files")
        yield kind, size


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        size = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        return min(size, 2 * MAX_UNPACKED)
    try:
        size = int(field.strip(b" \0") or b"0", 8)
    except ValueError as e:
        raise BadArchive("the header of a file is damaged") from e
    if size < 0:
        raise BadArchive("the header of a file is damaged")
    return size
