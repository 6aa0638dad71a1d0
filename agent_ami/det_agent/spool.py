"""Task logs on disk between the containers and the control plane: an outage or a crash loses none and doubles none.

Lines are appended to numbered segment files. The lines of a request are followed by its Idempotency-Key, so that they
are not added again when the container sends them again, even to the next process. `position.json` names the batch on
its way, written before it is sent, so a batch is sent again after a crash under the same id and with the same lines,
and the control plane stores it once.
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
# No line of JSON begins like this.
_MARK = b"#"

_log = logging.getLogger(__name__)


class SpoolFull(Exception):
    """The disk budget for unsent logs is used up, or the disk takes no more: their senders must wait."""


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
        # A request that comes again follows soon, but this process may not be the first one to start since then, and
        # each begins a segment.
        newest = [s for s in segments if self._sizes[s]][-2:]
        self._marks = deque((m for s in newest for m in self._marks_of(s)), MAX_MARKS)
        self._restore_pending()
        self._out = open(self._path(self._write_segment), "ab", buffering=0)  # noqa: SIM115
        self._sizes[self._write_segment] = 0

    def append(self, lines: Sequence[bytes], key: str = "") -> None:
        """Add JSON lines (without their newline), unless those of this key were added before. Raises SpoolFull."""
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
        """Return the oldest unacknowledged lines; the same batch again until it is acknowledged. Raises OSError."""
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
        """Wait for lines, for a time or until `stopping` is set and `interrupt` called. Return whether any came."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_lines() or stopping.is_set(), timeout_s)
            return self._has_lines()

    def has_unsent(self) -> bool:
        """Return whether lines were not acknowledged yet."""
        with self._changed:
            return self._has_lines()

    def _has_lines(self) -> bool:
        return self._stored_bytes > self._read_at

    def interrupt(self) -> None:
        """Let waits look again whether they should stop."""
        with self._changed:
            self._changed.notify_all()

    def written(self) -> int:
        """Return the place behind the last line."""
        with self._changed:
            return self._stored_ever

    def wait_until_sent(self, place: int, timeout_s: float) -> bool:
        """Return whether everything before this place was acknowledged in time."""
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
            # What was sent has room until its segment ends.
            self._rotate()
            self._skip_finished_segments()
            self._write(block)

    def _write(self, block: bytes) -> None:
        """Append all of a block, or nothing."""
        if self._sizes[self._write_segment] >= self._segment_bytes:
            self._rotate()
        left = memoryview(block)
        try:
            while left:
                left = left[self._out.write(left) :]
        except OSError:
            # The next line would be glued to half a one.
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
                # A line without its end was being written when the agent died: its sender was never answered.
                if line.endswith(b"\n") and not mark:
                    lines.append(line[:-1])
        return self._lost(segment) if end == start < self._sizes[segment] else (lines, end)

    def _lost(self, segment: int) -> tuple[list[bytes], int]:
        """Go on behind a segment that somebody deleted or emptied; its lines are lost."""
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
            # A full disk has no room for another file, and gets it only by lines that are sent.
            with open(path, "r+b", buffering=0) as f:
                f.write(content.encode())

    def _restore_pending(self) -> None:
        path = self._folder / "position.json"
        try:
            place = json.loads(path.read_text())
        except FileNotFoundError:
            with contextlib.suppress(
                OSError
            ):  # room for the first batch, should the disk be full by then
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
