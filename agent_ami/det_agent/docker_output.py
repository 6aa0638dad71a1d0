"""The lines that a container wrote to its stdout or stderr, each once.

`attach` loses lines when it comes after the start; `logs` with `since` repeats those of the same second. So every line
carries the engine's timestamp, which is also the cursor: what is not newer was seen before.
"""

from collections.abc import Iterator
from typing import Any

from det_agent.runtime import OutputLine, Stream


def read_output(
    api: Any, docker_id: str, stream: Stream, cursor: str, follow: bool
) -> Iterator[OutputLine]:
    """Yield the lines newer than `cursor`; with `follow`, until the container stops.

    A follower may miss the last words of a container that ends while it listens: read once more without `follow` then.
    """
    chunks = api.logs(
        docker_id,
        stdout=stream == "stdout",
        stderr=stream == "stderr",
        stream=True,
        follow=follow,
        timestamps=True,
        since=_epoch_seconds(cursor),
    )
    try:
        for timestamp, text in _whole_lines(chunks, unfinished_too=not follow):
            if timestamp > cursor:
                yield OutputLine(text, timestamp, timestamp)
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


def _epoch_seconds(cursor: str) -> int | None:
    if not cursor:
        return None
    from datetime import datetime, timezone

    moment = datetime.strptime(cursor.partition(".")[0], "%Y-%m-%dT%H:%M:%S")
    return int(moment.replace(tzinfo=timezone.utc).timestamp())
