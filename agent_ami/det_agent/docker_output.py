"""Read each line of a container's stdout or stderr once.

`attach` misses the lines before it, and `logs` with `since` repeats the lines of the same second. The cursor is
therefore the engine's timestamp of a line and its number among the lines with this timestamp. Podman's timestamps have
whole seconds.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from det_agent.runtime import OutputLine, Stream


@dataclass(frozen=True, order=True)
class LogPosition:
    """The position of a line: the nth line of its moment."""

    moment: str = ""
    nth: int = 0

    @classmethod
    def read(cls, cursor: str) -> "LogPosition":
        """Parse a cursor. A moment without a number includes all of its lines."""
        moment, _, nth = cursor.partition("#")
        return cls(moment, int(nth or sys.maxsize))

    def next(self, moment: str) -> "LogPosition":
        return LogPosition(moment, self.nth + 1 if moment == self.moment else 1)

    def __str__(self) -> str:
        return f"{self.moment}#{self.nth}"


def read_output(
    api: Any, docker_id: str, stream: Stream, cursor: str, follow: bool
) -> Iterator[OutputLine]:
    """Yield the lines after `cursor`, with `follow` until the container stops.

    A follower may miss the last lines of a container that ends. Read again without `follow` after the end.
    """
    last_position, place = LogPosition.read(cursor), LogPosition()
    chunks = api.logs(
        docker_id,
        stdout=stream == "stdout",
        stderr=stream == "stderr",
        stream=True,
        follow=follow,
        timestamps=True,
        since=_epoch_seconds(last_position.moment),
    )
    try:
        for timestamp, text in _whole_lines(chunks, unfinished_too=not follow):
            place = place.next(timestamp)
            if place > last_position:
                yield OutputLine(text, timestamp, str(place))
    finally:
        chunks.close()


def _whole_lines(chunks: Iterator[bytes], unfinished_too: bool) -> Iterator[tuple[str, str]]:
    """Join the pieces of long lines. The engine splits lines at 16 KiB, and each piece has a timestamp."""
    first_stamp, pieces = "", bytearray()
    for chunk in chunks:
        stamp, _, piece = chunk.partition(b" ")
        first_stamp = first_stamp or _sortable(stamp.decode("ascii", "replace"))
        pieces += piece
        if piece.endswith(b"\n"):
            yield first_stamp, pieces.decode("utf-8", "replace").rstrip("\r\n")
            first_stamp, pieces = "", bytearray()
    if pieces and unfinished_too:
        yield first_stamp, pieces.decode("utf-8", "replace")


def _sortable(timestamp: str) -> str:
    """Return the timestamp with nine digits. The engine omits trailing zeros, which would break sorting."""
    seconds, _, fraction = timestamp.rstrip("Z").partition(".")
    return f"{seconds}.{fraction:0<9}Z"


def _epoch_seconds(moment: str) -> int | None:
    if not moment:
        return None
    from datetime import datetime, timezone

    second = datetime.strptime(moment.partition(".")[0], "%Y-%m-%dT%H:%M:%S")
    return int(second.replace(tzinfo=timezone.utc).timestamp())
