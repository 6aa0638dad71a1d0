"""Check the tar.gz of a model definition without unpacking it, because a small archive can contain gigabytes."""

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = 512
MAX_UNPACKED = 400 * 1024 * 1024
MAX_ENTRIES = 50_000
# Text shrinks to about a tenth. A ratio of a hundred is an attack, except in small archives.
MAX_RATIO, _SMALL = 100, 32 * 1024 * 1024
LONGEST_PATH = 4096  # bytes, the limit of Linux
_MAX_EXTENSION = 4 * LONGEST_PATH  # size of an extension header, which contains long names
# A PAX header with a second size. Other programs would use that size and see entries that this check skipped.
_OTHER_SIZE = re.compile(rb"(?:^|\n)\d+ size=")
_EXTENSIONS = b"xgLK"
_KINDS = b"0\x0012345" + _EXTENSIONS
_CHUNK = 1 << 20


class BadArchive(Exception):
    """The archive cannot be read or is not allowed. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    size: int
    entries: int


def check(content: bytes) -> Unpacked:
    """Return the unpacked size of an archive. Raises `BadArchive` if it is too large or damaged."""
    reader = _Counted(content)
    entries = sum(1 for kind, _ in _headers(reader) if kind not in _EXTENSIONS)
    reader.drain()
    return Unpacked(reader.size, entries)


class _Counted:
    """Unpack an archive and count its bytes up to a limit."""

    def __init__(self, content: bytes) -> None:
        self.size = 0
        self._limit = min(MAX_UNPACKED, max(_SMALL, MAX_RATIO * len(content)))
        self._file = gzip.GzipFile(fileobj=io.BytesIO(content))

    def read(self, count: int) -> bytes:
        try:
            piece = self._file.read(count)
        except (OSError, EOFError, zlib.error) as e:
            raise BadArchive(f"it is not a whole tar.gz: {e}") from e
        self.size += len(piece)
        if self.size > self._limit:
            raise BadArchive(f"it unpacks to more than {self._limit >> 20} MiB")
        return piece

    def skip(self, count: int) -> None:
        while count > 0:
            piece = self.read(min(count, _CHUNK))
            if not piece:
                raise BadArchive("it ends in the middle of a file")
            count -= len(piece)

    def drain(self) -> None:
        while self.read(_CHUNK):
            pass


def _headers(archive: _Counted) -> Iterator[tuple[int, int]]:
    """Yield the kind and the size of each entry."""
    for count in range(2 * MAX_ENTRIES):
        header = archive.read(BLOCK)
        if len(header) < BLOCK or not header.strip(b"\0"):
            return
        kind, size = header[156], _number(header[124:136])
        if kind not in _KINDS:
            raise BadArchive(f"it has an entry of a kind that is not taken ({chr(kind)!r})")
        padded_size = size + -size % BLOCK
        if kind in _EXTENSIONS:
            if size > _MAX_EXTENSION:
                raise BadArchive("the header of a file is too long")
            extension = archive.read(padded_size)
            if b"GNU.sparse" in extension:
                raise BadArchive("it has a sparse file, whose size is not what it holds")
            if _OTHER_SIZE.search(extension):
                raise BadArchive("it has a file with two sizes")
        else:
            archive.skip(padded_size)
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
