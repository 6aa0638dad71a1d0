"""Bodies of requests to the gateway. They are stored for retries and limited in size by caller."""

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from io import BufferedIOBase
from typing import IO

_MEMORY_BYTES = 1024 * 1024
# The limit of the control plane. Callers without a token only sign in, so their limit is small.
MAX_BODY_BYTES = 130 * 1024 * 1024
MAX_TOKENLESS_BODY_BYTES = 64 * 1024
# The limit on disk for all callers together that are not containers of this agent.
MAX_OTHERS_BYTES = 4 * MAX_BODY_BYTES
BinarySource = IO[bytes] | BufferedIOBase
_LONGEST_CHUNK_LINE, _MOST_TRAILERS = 1024, 64


class BadBody(Exception):
    """The body is too long, its length is not readable, or the disk is full."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Budget:
    """Count the bytes on disk of callers that are not containers of this agent."""

    def __init__(self, size: int = MAX_OTHERS_BYTES) -> None:
        self._free, self._lock = size, threading.Lock()

    def take(self, size: int) -> None:
        with self._lock:
            if size > self._free:
                raise BadBody(503, "too many large requests at once: send this one again")
            self._free -= size

    def release(self, size: int) -> None:
        with self._lock:
            self._free += size


@dataclass
class Body:
    """A request body that can be sent again. It is in memory while it is small."""

    file: IO[bytes]
    length: int
    budget: Budget | None = None

    def write(self, block: bytes) -> None:
        if self.budget is not None:
            self.budget.take(len(block))
        self.length += len(block)
        with _room():
            self.file.write(block)

    def rewind(self) -> None:
        with _room():
            self.file.seek(0)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closing tries to write to a full disk again
            self.file.close()
        if self.budget is not None:
            self.budget.release(self.length)

    def __enter__(self) -> "Body":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@contextlib.contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise BadBody(503, f"the agent's disk has no room for the request: {e}") from e


def read_body(source: BinarySource, headers: Message, limit: int, budget: Budget | None) -> Body:
    """Read a body within the limit and the budget. Raises BadBody."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115
    body = Body(file, 0, budget)
    try:
        if "chunked" in (headers.get("Transfer-Encoding") or "").lower():
            _copy_chunks(source, body, limit)
        else:
            _copy(source, body, _length(headers.get("Content-Length"), limit))
        body.rewind()
    except BaseException:
        body.close()
        raise
    return body


def _length(text: str | None, limit: int) -> int:
    text = (text or "0").strip()
    if not (text.isascii() and text.isdigit()):
        raise BadBody(400, "Content-Length is no number")
    return _check_length(int(text) if len(text) < 19 else limit + 1, limit)


def _check_length(length: int, limit: int) -> int:
    if length > limit:
        raise BadBody(413, f"the request is larger than {limit >> 10} KiB")
    return length


def _copy(source: BinarySource, body: Body, length: int) -> None:
    remaining = length
    while remaining:
        block = source.read(min(remaining, 256 * 1024))
        if not block:
            raise ConnectionError("the container closed the connection inside its request")
        body.write(block)
        remaining -= len(block)


def _copy_chunks(source: BinarySource, body: Body, limit: int) -> None:
    while size := _chunk_size(source.readline(_LONGEST_CHUNK_LINE)):
        _check_length(body.length + size, limit)
        _copy(source, body, size)
        source.readline(_LONGEST_CHUNK_LINE)
    for _ in range(_MOST_TRAILERS):
        if not source.readline(_LONGEST_CHUNK_LINE).strip():
            return
    raise BadBody(400, "too much follows the chunks of the body")


def _chunk_size(line: bytes) -> int:
    digits = line.split(b";")[0].strip()
    if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
        raise BadBody(400, "the body has a chunk without a size")
    return int(digits, 16)
