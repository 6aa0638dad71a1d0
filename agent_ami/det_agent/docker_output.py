"""The lines that a container wrote to its stdout or stderr, each once.

`attach` loses lines when it comes after the start; `logs` with `since` repeats those of the same second. So the
cursor is the engine's timestamp of a line and its number among those of that timestamp: Podman tells whole seconds.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from det_agent.runtime import OutputLine, Stream


@dataclass(frozen=True, order=True)
class LogPosition:
    """The place of a line in the output: it is the nth line of its moment."""

    moment: str = ""
    nth: int = 0

    @classmethod
    def read(cls, cursor: str) -> "LogPosition":
        """Read a cursor. A moment without a number stands for all of its lines."""
        moment, _, nth = cursor.partition("#")
        return cls(moment, int(nth or sys.maxsize))

    def next(self, moment: str) -> "LogPosition":
        return LogPosition(moment, self.nth + 1 if moment == self.moment else 1)

    def __str__(self) -> str:
        return f"{self.moment}#{self.nth}"


def read_output(
    api: Any, docker_id: str, stream: Stream, cursor: str, follow: bool
) -> Iterator[OutputLine]:
    """Yield the lines after `cursor`; with `follow`, until the container stops.

    A follower may miss the last words of a container that ends while it listens: read once more without `follow` then.
    """
    seen, place = LogPosition.read(cursor), LogPosition()
    chunks = api.logs(
        docker_id,
        stdout=stream == "stdout",
        stderr=stream == "stderr",
        stream=True,
        follow=follow,
        timestamps=True,
        since=_epoch_seconds(seen.moment),
    )
    try:
        for timestamp, text in _whole_lines(chunks, unfinished_too=not follow):
            place = place.next(timestamp)
            if place > seen:
                yield OutputLine(text, timestamp, str(place))
    finally:
        chunks.close()


def _whole_lines(chunks: Iterator[bytes], unfinished_too: bool) -> Iterator[tuple[str, str]]:
    """Join what the engine cuts at 16 KiB: every piece has a timestamp, only the last one a line end."""
    began, pieces = "", bytearray()
    for chunk in chunks:
        stamp, _, piece = chunk.partition(b" ")
        began = began or _sortable(stamp.decode("ascii", "replace"))
        pieces += piece
        if piece.endswith(b"\n"):
            yield began, pieces.decode("utf-8", "replace").rstrip("\r\n")
            began, pieces = "", bytearray()
    if pieces and unfinished_too:
        yield began, pieces.decode("utf-8", "replace")


def _sortable(timestamp: str) -> str:
    """Write nine digits always: the engine drops trailing zeros, and then text would not sort as time."""
    seconds, _, fraction = timestamp.rstrip("Z").partition(".")
    return f"{seconds}.{fraction:0<9}Z"


def _epoch_seconds(moment: str) -> int | None:
    if not moment:
        return None
    from datetime import datetime, timezone

    second = datetime.strptime(moment.partition(".")[0], "%Y-%m-%dT%H:%M:%S")
    return int(second.replace(tzinfo=timezone.utc).timestamp())
