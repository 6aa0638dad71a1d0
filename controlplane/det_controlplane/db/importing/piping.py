"""Pass COPY data from one database to another without storing it: a thread reads while another writes."""

import io
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_CHUNK = 1 << 18
_CHUNKS = 8  # waiting between reader and writer
_POLL_S = 1.0


class Stopped(Exception):
    """The other side of the pipe has failed."""


class Sink:
    """The end of a pipe that the source writes to."""

    def __init__(self, pipe: "Pipe", convert: Callable[[bytes], bytes] | None = None) -> None:
        self._pipe, self._convert = pipe, convert
        self._part: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        data = bytes(data)
        if self._convert is not None:
            data = self._convert(data)
        self._part.append(data)
        self._size += len(data)
        self._pipe.rows += 1
        if self._size >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        if self._part:
            self._pipe.put(b"".join(self._part))
            self._part, self._size = [], 0


class Pipe(io.RawIOBase):
    """A bounded queue of chunks. The target reads it as a file."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: queue.Queue[bytes] = queue.Queue(_CHUNKS)
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._rest = memoryview(b"")
        self.rows = 0

    @property
    def has_failed(self) -> bool:
        """Return whether the source has failed."""
        return self._error is not None

    def put(self, chunk: bytes) -> None:
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._chunks.put(chunk, timeout=_POLL_S)
                return
        raise Stopped

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as possible with the next bytes; return 0 at the end. Raises the error of the source."""
        if not self._rest:
            self._rest = memoryview(self._chunks.get())
            if not self._rest and self._error is not None:
                raise self._error
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def pump(
        self,
        produce: Callable[[Sink], None],
        consume: Callable[["Pipe"], None],
        convert: Callable[[bytes], bytes] | None = None,
    ) -> int:
        """Run `produce` in a thread and `consume` in this one. Return the number of rows.

        `convert` changes each row."""

        def run() -> None:
            try:
                sink = Sink(self, convert)
                produce(sink)
                sink.flush()
            except Stopped:
                return
            except BaseException as e:
                self._error = e
            with suppress(Stopped):
                self.put(b"")

        thread = threading.Thread(target=run, name="import-source")
        thread.start()
        try:
            consume(self)
        finally:
            self._stopped.set()
            thread.join()
        if self._error is not None:
            raise self._error
        return self.rows
