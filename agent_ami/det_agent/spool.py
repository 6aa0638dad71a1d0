"""Store task logs on disk until the control plane has them. An outage or crash neither loses nor repeats lines.

Lines are appended to numbered segment files. The lines of a request are followed by its Idempotency-Key, so that a
repeated request adds no lines, even in the next process. `position.json` names the current batch and is written before
the batch is sent. After a crash, the same batch is sent with the same id, and the control plane stores it once.
"""

import contextlib
import json
import logging
import os
import threading
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from det_agent.identity import write_atomically

SEGMENT_BYTES = 4 * 1024 * 1024
MAX_BATCH_LINES = 1000
MAX_MARKS = 1000
MAX_BATCH_BYTES = 2 * 1024 * 1024
PLACE_BYTES = 256
# JSON lines never begin with this character.
_MARK = b"#"

_log = logging.getLogger(__name__)


class SpoolFull(Exception):
    """The disk limit for unsent logs is reached, or the disk is full. The senders must wait."""


@dataclass(frozen=True)
class Batch:
    id: str
    segment: int
    start: int
    end: int
    lines: tuple[bytes, ...]


class Spool:
    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = 2 * 1024**3,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._segment_bytes = segment_bytes
        self._changed = threading.Condition()
        self._pending: Batch | None = None
        segments = self._segments()
        self._write_segment = (segments[-1] if segments else 0) + 1
        self._read_segment, self._read_at = (segments or [self._write_segment])[0], 0
        self._sizes = {s: self._path(s).stat().st_size for s in segments}
        self._stored_bytes = self._stored_ever = sum(self._sizes.values())
        # A repeated request arrives soon, but this process may not be the first one since then. Each process starts a
        # new segment, so the last two segments with content are read.
        newest = [s for s in segments if self._sizes[s]][-2:]
        self._marks = deque((m for s in newest for m in self._marks_of(s)), MAX_MARKS)
        self._restore_pending()
        self._out = open(self._path(self._write_segment), "ab", buffering=0)  # noqa: SIM115
        self._sizes[self._write_segment] = 0

    def append(self, lines: Sequence[bytes], key: str = "") -> None:
        """Add JSON lines without newlines, unless this key's lines were added before. Raises SpoolFull."""
        mark = _MARK + key.encode()
        block = b"".join(line + b"\n" for line in ([*lines, mark] if key else lines))
        with self._changed:
            if mark in self._marks:
                return
            if self._stored_bytes + len(block) > self._max_bytes:
                raise SpoolFull(
                    f"{self._folder} holds {self._stored_bytes} bytes of unsent logs; "
                    "they are sent when the control plane answers again"
                )
            try:
                self._store(block)
            except OSError as e:
                raise SpoolFull(f"the agent's disk takes no more logs: {e}") from e
            self._stored_bytes += len(block)
            self._stored_ever += len(block)
            if key:
                self._marks.append(mark)
            self._changed.notify_all()

    def next_batch(
        self, max_lines: int = MAX_BATCH_LINES, max_bytes: int = MAX_BATCH_BYTES
    ) -> Batch | None:
        """Return the oldest unacknowledged lines. It is the same batch until it is acknowledged. Raises OSError."""
        with self._changed:
            if self._pending is None:
                self._skip_finished_segments()
                lines, end = self._read(self._read_segment, self._read_at, max_lines, max_bytes)
                if not lines:
                    self._read_at = end
                    self._changed.notify_all()
                    return None
                batch_id = str(uuid.uuid4())
                batch = Batch(batch_id, self._read_segment, self._read_at, end, tuple(lines))
                self._save_pending(batch)
                self._pending = batch
            return self._pending

    def acknowledge(self, batch: Batch) -> None:
        with self._changed:
            if self._pending is None or self._pending.id != batch.id:
                return
            self._pending = None
            self._read_at = batch.end
            self._skip_finished_segments()
            self._changed.notify_all()

    def wait_for_lines(self, timeout_s: float | None, stopping: threading.Event) -> bool:
        """Wait for lines, a timeout, or `stopping` with a call of `interrupt`. Return whether there are lines."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_lines() or stopping.is_set(), timeout_s)
            return self._has_lines()

    def has_unsent(self) -> bool:
        """Return whether some lines are not acknowledged yet."""
        with self._changed:
            return self._has_lines()

    def _has_lines(self) -> bool:
        return self._stored_bytes > self._read_at

    def interrupt(self) -> None:
        """Wake waiting threads, so that they check whether they should stop."""
        with self._changed:
            self._changed.notify_all()

    def written(self) -> int:
        """Return the position after the last line."""
        with self._changed:
            return self._stored_ever

    def wait_until_sent(self, place: int, timeout_s: float) -> bool:
        """Return whether all lines before this position were acknowledged in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._sent_ever() >= place, timeout_s)

    def _sent_ever(self) -> int:
        return self._stored_ever - (self._stored_bytes - self._read_at)

    def close(self) -> None:
        with self._changed:
            self._out.close()

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:08d}.ndjson"

    def _segments(self) -> list[int]:
        return sorted(int(p.stem) for p in self._folder.glob("*.ndjson"))

    def _store(self, block: bytes) -> None:
        try:
            self._write(block)
        except OSError:
            if self._pending is not None or self._has_lines():
                raise
            # The space of sent lines becomes free when their segment ends.
            self._rotate()
            self._skip_finished_segments()
            self._write(block)

    def _write(self, block: bytes) -> None:
        """Append the whole block or nothing."""
        if self._sizes[self._write_segment] >= self._segment_bytes:
            self._rotate()
        remaining = memoryview(block)
        try:
            while remaining:
                remaining = remaining[self._out.write(remaining) :]
        except OSError:
            # Remove the partial line, because the next line would be appended to it.
            os.ftruncate(self._out.fileno(), self._sizes[self._write_segment])
            raise
        self._sizes[self._write_segment] += len(block)

    def _rotate(self) -> None:
        segment = self._write_segment + 1
        full, self._out = self._out, open(self._path(segment), "ab", buffering=0)  # noqa: SIM115
        self._write_segment, self._sizes[segment] = segment, 0
        full.close()

    def _skip_finished_segments(self) -> None:
        while self._read_segment < self._write_segment:
            size = self._sizes.get(self._read_segment, 0)
            if self._read_at < size:
                return
            self._path(self._read_segment).unlink(missing_ok=True)
            self._sizes.pop(self._read_segment, None)
            self._stored_bytes -= size
            self._read_segment, self._read_at = self._read_segment + 1, 0

    def _read(
        self, segment: int, start: int, max_lines: int, max_bytes: int
    ) -> tuple[list[bytes], int]:
        lines: list[bytes] = []
        end = start
        try:
            f = open(self._path(segment), "rb")  # noqa: SIM115
        except FileNotFoundError:
            return self._lost(segment)
        with f:
            f.seek(start)
            while end - start < max_bytes:
                line = f.readline()
                mark = line.startswith(_MARK)
                if not line or (len(lines) == max_lines and not mark):
                    break
                end += len(line)
                # The agent died while it wrote this incomplete line. Its sender got no answer and repeats it.
                if line.endswith(b"\n") and not mark:
                    lines.append(line[:-1])
        return self._lost(segment) if end == start < self._sizes[segment] else (lines, end)

    def _lost(self, segment: int) -> tuple[list[bytes], int]:
        """Continue after a segment that was deleted or emptied. Its lines are lost."""
        path = self._path(segment)
        _log.warning("%s was deleted or emptied with lines that were not sent", path)
        if segment == self._write_segment:
            self._rotate()
        return [], self._sizes[segment]

    def _marks_of(self, segment: int) -> list[bytes]:
        lines = self._path(segment).read_bytes().splitlines(keepends=True)
        return [line[:-1] for line in lines if line.startswith(_MARK) and line.endswith(b"\n")]

    def _save_pending(self, batch: Batch) -> None:
        place = {
            "id": batch.id,
            "segment": batch.segment,
            "start": batch.start,
            "end": batch.end,
        }
        path, content = self._folder / "position.json", json.dumps(place).ljust(PLACE_BYTES)
        try:
            write_atomically(path, content)
        except OSError:
            # A full disk has no room for a new file until lines are sent, so write in place.
            with open(path, "r+b", buffering=0) as f:
                f.write(content.encode())

    def _restore_pending(self) -> None:
        path = self._folder / "position.json"
        try:
            place = json.loads(path.read_text())
        except FileNotFoundError:
            # Reserve space for the first position, in case the disk becomes full.
            with contextlib.suppress(OSError):
                write_atomically(path, " " * PLACE_BYTES)
            return
        except ValueError:
            return
        if not self._path(place["segment"]).exists():
            return
        size = place["end"] - place["start"]
        lines, end = self._read(place["segment"], place["start"], MAX_BATCH_LINES, size)
        self._read_segment, self._read_at = place["segment"], place["start"]
        if lines:
            self._pending = Batch(place["id"], place["segment"], place["start"], end, tuple(lines))
