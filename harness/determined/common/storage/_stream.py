"""Store a file while it is written, in parallel parts with bounded memory and without a file on this machine."""

import contextlib
import io
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Deque, Dict, Iterator, List, Optional

from determined.common.storage._base import FileChecksum
from determined.common.storage._parts import crc32
from determined.common.storage._store import ObjectStore
from determined.common.storage._stored_file import StoredFile
from determined.common.storage._transfer import part_size_for, retried

STREAM_THREADS = 4
PARTS_AHEAD = 2 * STREAM_THREADS  # parts in memory that are being sent or wait for a thread


class MemoryPart:
    """A part in memory. Like a `FilePart`, it can be read again for each attempt."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.crc32 = crc32(body)

    def __len__(self) -> int:
        return len(self._body)

    @contextlib.contextmanager
    def stream(self) -> Iterator[io.BytesIO]:
        yield io.BytesIO(self._body)

    @contextlib.contextmanager
    def whole(self) -> Iterator[bytes]:
        yield self._body


class ObjectFile(StoredFile):
    """An object that is sent in parts while it is written. A small one is sent with a single request."""

    def __init__(self, store: ObjectStore, key: str, expected_bytes: int) -> None:
        self._store = store
        self._key = key
        self._part_size = part_size_for(expected_bytes, expected_bytes, store.largest_part)
        self._buffer = bytearray()
        self._upload_id = ""
        self._crcs: List[int] = []
        self._pieces: Dict[int, int] = {}
        self._piece_crc: Optional[int] = None
        self._tags: List[Future[str]] = []
        self._pending: Deque[Future[str]] = Deque()
        self._pool = ThreadPoolExecutor(STREAM_THREADS, "determined-stream")

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.size += len(view)
        if self._piece_crc is not None:
            self._piece_crc = crc32(view, self._piece_crc)
        at = 0
        while at < len(view):
            count = min(self._part_size - len(self._buffer), len(view) - at)
            self._buffer += view[at : at + count]
            at += count
            # The last part is sent by `close`, so that a file of one part needs no upload in parts.
            if len(self._buffer) == self._part_size and at < len(view):
                self._send()
        return len(view)

    @contextlib.contextmanager
    def piece(self) -> Iterator[None]:
        start, self._piece_crc = self.size, 0
        yield
        self._pieces[start], self._piece_crc = self._piece_crc, None

    def close(self) -> None:
        if not self._upload_id:
            body = bytes(self._buffer)
            retried(lambda: self._store.put(self._key, body))
            self._crcs.append(crc32(body))
        else:
            self._send()
            tags = [tag.result() for tag in self._tags]
            retried(lambda: self._store.end_parts(self._key, self._upload_id, tags))
        self._pool.shutdown(wait=True)
        self.checksum = FileChecksum(self.size, self._part_size, self._crcs, self._pieces)

    def abort(self) -> None:
        for job in self._pending:
            job.cancel()
        self._pool.shutdown(wait=True)
        if self._upload_id:
            with contextlib.suppress(Exception):  # the first error is the one to show
                tags = [t.result() for t in self._tags if not t.cancelled() and not t.exception()]
                self._store.abort_parts(self._key, self._upload_id, tags)

    def _send(self) -> None:
        if not self._upload_id:
            self._upload_id = retried(lambda: self._store.begin_parts(self._key))
        part, self._buffer = MemoryPart(bytes(self._buffer)), bytearray()
        number = len(self._crcs) + 1
        self._crcs.append(part.crc32)
        while len(self._pending) >= PARTS_AHEAD:
            self._pending.popleft().result()
        job = self._pool.submit(self._put, number, part)
        self._pending.append(job)
        self._tags.append(job)

    def _put(self, number: int, part: MemoryPart) -> str:
        return retried(lambda: self._store.put_part(self._key, self._upload_id, number, part))
