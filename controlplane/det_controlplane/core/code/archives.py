"""Write tar and zip archives as streams. Only the current piece of a file is in memory."""

import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_BLOCK = 512
_RECORD = 20 * _BLOCK  # tar pads its end to full records

Read = Callable[[str], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    size: int


def tar(entries: Sequence[Entry], read: Read) -> Iterator[bytes]:
    size = 0
    for entry in entries:
        header = _header(entry)
        yield header
        yield from _exactly(entry, read)
        padding = -entry.size % _BLOCK
        yield bytes(padding)
        size += len(header) + entry.size + padding
    yield bytes(_end(size))


def tar_size(entries: Sequence[Entry]) -> int:
    """Return how many bytes `tar` will write."""
    size = sum(len(_header(e)) + e.size + -e.size % _BLOCK for e in entries)
    return size + _end(size)


def gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(level=1, wbits=31)
    for piece in pieces:
        chunk = packer.compress(piece)
        if chunk:
            yield chunk
    yield packer.flush()


def zipped(entries: Sequence[Entry], read: Read) -> Iterator[bytes]:
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for entry in entries:
            with archive.open(zipfile.ZipInfo(entry.name), "w", force_zip64=True) as member:
                for piece in _exactly(entry, read):
                    member.write(piece)
                    yield sink.take()
            yield sink.take()
    yield sink.take()


def _header(entry: Entry) -> bytes:
    info = tarfile.TarInfo(entry.name)
    info.size, info.mode = entry.size, 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


def _end(size: int) -> int:
    return 2 * _BLOCK + -(size + 2 * _BLOCK) % _RECORD


def _exactly(entry: Entry, read: Read) -> Iterator[bytes]:
    """Read exactly `entry.size` bytes. A file that changed its size would damage the entries that follow it."""
    remaining = entry.size
    for piece in read(entry.name) if entry.size else ():
        remaining -= len(piece)
        if remaining < 0:
            break
        yield piece
    if remaining:
        raise ValueError(f"{entry.name} changed while it was read")


class _Sink(io.RawIOBase):
    """The file that a ZipFile writes to; it cannot seek, so sizes follow the data."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._pieces.append(piece)
        return len(piece)

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
