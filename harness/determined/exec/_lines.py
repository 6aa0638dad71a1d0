"""Cut a byte stream into log lines, and read rank and level off their prefixes."""

import re
from typing import Iterator, NamedTuple, Optional

MAX_LINE_BYTES = 8192
_BREAK = re.compile(rb"\r\n|\n|\r")
# horovodrun and mpirun put their own mark before ours.
_PREFIX = re.compile(
    r"(?:(?:\[[\d,]+\]<std(?:out|err)>:)?\[rank=(?P<rank>\d+)\] )?"
    r"(?:(?P<level>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL): )?"
)


class Line(NamedTuple):
    text: str
    rank: Optional[int]
    level: Optional[str]


class LineSplitter:
    """Splits output into lines, which end with \\n, \\r or both (progress bars redraw with \\r); long lines are cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Line]:
        pieces = _BREAK.split(self._rest + chunk)
        # A \r at the end of a chunk may be half of \r\n: keep it until the next byte is known.
        if chunk.endswith(b"\r"):
            pieces.pop()
            pieces[-1] += b"\r"
        self._rest = pieces.pop()
        for piece in pieces:
            yield from _cut(piece)
        while len(self._rest) > MAX_LINE_BYTES:
            head, self._rest = self._rest[:MAX_LINE_BYTES], self._rest[MAX_LINE_BYTES:]
            yield _parse(head)

    def end(self) -> Iterator[Line]:
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        if rest:
            yield from _cut(rest)


def _cut(piece: bytes) -> Iterator[Line]:
    for start in range(0, max(len(piece), 1), MAX_LINE_BYTES):
        yield _parse(piece[start : start + MAX_LINE_BYTES])


def _parse(piece: bytes) -> Line:
    text = piece.decode("utf-8", "replace")
    found = _PREFIX.match(text)
    if found is None or not found.end():
        return Line(text, None, None)
    rank = int(found["rank"]) if found["rank"] else None
    level = f"LOG_LEVEL_{found['level']}" if found["level"] else None
    return Line(text[found.end() :], rank, level)
