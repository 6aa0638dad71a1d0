"""Split a byte stream into log lines, and parse rank and level from their prefixes."""

import re
from typing import Iterator, NamedTuple, Optional

MAX_LINE_BYTES = 8192
_BREAK = re.compile(rb"\r\n|\n|\r")
# horovodrun and mpirun add their own prefix before the rank.
_PREFIX = re.compile(
    r"(?:(?:\[[\d,]+\]<std(?:out|err)>:)?\[rank=(?P<rank>\d+)\] )?"
    r"(?:(?P<level>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL): )?"
)


class Line(NamedTuple):
    text: str
    rank: Optional[int]
    level: Optional[str]


class LineSplitter:
    """Splits output into lines that end with \\n, \\r or both. Progress bars redraw with \\r. Long lines are cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Line]:
        lines = _BREAK.split(self._rest + chunk)
        # A \r at the end of a chunk may be the first half of \r\n, so keep it until the next byte is known.
        if chunk.endswith(b"\r"):
            lines.pop()
            lines[-1] += b"\r"
        self._rest = lines.pop()
        for line in lines:
            yield from _cut(line)
        while len(self._rest) > MAX_LINE_BYTES:
            head, self._rest = self._rest[:MAX_LINE_BYTES], self._rest[MAX_LINE_BYTES:]
            yield _parse(head)

    def end(self) -> Iterator[Line]:
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        if rest:
            yield from _cut(rest)


def _cut(line: bytes) -> Iterator[Line]:
    for start in range(0, max(len(line), 1), MAX_LINE_BYTES):
        yield _parse(line[start : start + MAX_LINE_BYTES])


def _parse(line: bytes) -> Line:
    text = line.decode("utf-8", "replace")
    prefix = _PREFIX.match(text)
    if prefix is None or not prefix.end():
        return Line(text, None, None)
    rank = int(prefix["rank"]) if prefix["rank"] else None
    level = f"LOG_LEVEL_{prefix['level']}" if prefix["level"] else None
    return Line(text[prefix.end() :], rank, level)
