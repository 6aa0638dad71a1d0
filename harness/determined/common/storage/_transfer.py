"""Transfer many objects at once: in parallel parts, with bounded memory, checksums and retries."""

import contextlib
import json
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, List, Mapping, Sequence, TypeVar

from determined.common.storage._base import Checksums, FileChecksum
from determined.common.storage._parts import FilePart, MemoryBudget, crc32
from determined.common.storage._store import ObjectStore
from determined.errors import CheckpointCorrupt

PART_BYTES = 8 * 1024 * 1024
MAX_PARTS = 10_000
# One connection has limited speed, so more threads help. With few processors, threads slow each other down.
PART_THREADS = min(12, 4 + 2 * (os.cpu_count() or 1))
PARTS_A_THREAD = 8  # at least, so that no thread is idle while the last parts are sent
PARTS_IN_FLIGHT_BYTES = 8 * PART_BYTES  # for clients that need a part's bytes at once
CHECKED_AT_ONCE = 1024 * 1024
SMALL_THREADS = 64
SMALL_IN_FLIGHT_BYTES = 24 * 1024 * 1024
ATTEMPTS = 4

T = TypeVar("T")


class Transfer:
    """The thread pools of one upload, download or deletion."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        # Small objects are limited by latency, so many threads help. Parts are limited by bandwidth and memory.
        self._small = ThreadPoolExecutor(SMALL_THREADS, "determined-small")
        self._small_memory = MemoryBudget(SMALL_IN_FLIGHT_BYTES)
        self._parts = ThreadPoolExecutor(PART_THREADS, "determined-part")
        self._part_memory = MemoryBudget(PARTS_IN_FLIGHT_BYTES)

    def __enter__(self) -> "Transfer":
        return self

    def __exit__(self, *_: object) -> None:
        self._small.shutdown(wait=True)
        self._parts.shutdown(wait=True)

    def put_empty(self, key: str) -> None:
        retried(lambda: self._store.put(key, b""))

    def upload(self, root: str, base: str, files: Sequence[str]) -> Checksums:
        """Store `root`/f as `base`f for each file and return the checksums."""
        sizes = {path: os.path.getsize(os.path.join(root, path)) for path in files}
        large = [path for path in files if sizes[path] > PART_BYTES]
        part = part_size_for(
            max(sizes.values(), default=0), sum(sizes.values()), self._store.largest_part
        )
        uploads = {
            p: _PartedUpload(self, os.path.join(root, p), base + p, sizes[p], part) for p in large
        }
        jobs: List[Future[Any]] = [self._small.submit(u.begin) for u in uploads.values()]
        small: Dict[str, Future[FileChecksum]] = {}
        for path in files:
            if path not in uploads:
                source, key = os.path.join(root, path), base + path
                small[path] = self._small.submit(self._put_small, source, key, sizes[path])
        try:
            _gather(jobs)
            for upload in uploads.values():
                upload.start(self._parts)
            jobs += [*small.values(), *(j for u in uploads.values() for j in u.jobs)]
            _gather(jobs)
            finished = {path: self._small.submit(u.finish) for path, u in uploads.items()}
            jobs += finished.values()
            _gather(jobs)
        except BaseException:
            _cancel_and_wait([*jobs, *small.values()])
            for upload in uploads.values():
                upload.abort()
            raise
        return {path: job.result() for path, job in {**small, **finished}.items()}

    def download(
        self, base: str, root: str, files: Mapping[str, int], checksums: Checksums
    ) -> None:
        jobs: List[Future[Any]] = []
        parted = []
        for path, size in files.items():
            target = os.path.join(root, path)
            checksum = checksums.get(path)
            if checksum is not None and checksum.size != size:
                raise CheckpointCorrupt(
                    f"{path} has {size} bytes in storage, but {checksum.size} were saved"
                )
            if size <= PART_BYTES:
                jobs.append(
                    self._small.submit(self._get_small, base + path, target, size, checksum)
                )
            else:
                parts = _PartedDownload(self, base + path, target, size, checksum)
                parts.start(self._parts)
                parted.append(parts)
        _gather([*jobs, *(j for p in parted for j in p.jobs)])
        for parts in parted:
            parts.finish()

    def delete(self, keys: Sequence[str]) -> None:
        step = self._store.delete_batch
        batches = [keys[i : i + step] for i in range(0, len(keys), step)]
        jobs = [self._small.submit(self._delete_batch, batch) for batch in batches]
        _gather(jobs)

    def _delete_batch(self, keys: Sequence[str]) -> None:
        retried(lambda: self._store.delete(keys))

    def _put_small(self, source: str, key: str, size: int) -> FileChecksum:
        with self._small_memory.reserve(size):
            with open(source, "rb") as f:
                body = f.read()
            retried(lambda: self._store.put(key, body))
            return FileChecksum(len(body), PART_BYTES, [crc32(body)])

    def _get_small(self, key: str, target: str, size: int, checksum: "FileChecksum | None") -> None:
        def fetch() -> None:
            body = self._store.get(key)
            if len(body) != size or (checksum and [crc32(body)] != checksum.crcs):
                raise CheckpointCorrupt(f"{key}: size or checksum differ from what was saved")
            scratch = target + ".partial"
            with open(scratch, "wb") as f:
                f.write(body)
            os.replace(scratch, target)

        with self._small_memory.reserve(size):
            retried(fetch)


class _PartedUpload:
    """An upload of a large file. A failed part is retried separately."""

    def __init__(
        self, transfer: Transfer, source: str, key: str, size: int, part_size: int
    ) -> None:
        self._transfer = transfer
        self._source = source
        self._key = key
        self._size = size
        self._part_size = part_size
        self._upload_id = ""
        self._crcs = [0] * len(part_offsets(size, self._part_size))
        self._tags = [""] * len(self._crcs)
        self.jobs: List[Future[None]] = []

    def begin(self) -> None:
        self._upload_id = retried(lambda: self._transfer._store.begin_parts(self._key))

    def start(self, pool: ThreadPoolExecutor) -> None:
        self.jobs = [pool.submit(self._put, number) for number in range(len(self._crcs))]

    def finish(self) -> FileChecksum:
        store = self._transfer._store
        retried(lambda: store.end_parts(self._key, self._upload_id, self._tags))
        return FileChecksum(self._size, self._part_size, self._crcs)

    def abort(self) -> None:
        if self._upload_id:
            with contextlib.suppress(Exception):  # the first error is the one to show
                self._transfer._store.abort_parts(self._key, self._upload_id, self._tags)

    def _put(self, number: int) -> None:
        store, start = self._transfer._store, number * self._part_size
        length = min(self._part_size, self._size - start)
        part = FilePart(self._source, start, length, self._transfer._part_memory)
        self._tags[number] = retried(
            lambda: store.put_part(self._key, self._upload_id, number + 1, part)
        )
        self._crcs[number] = part.crc32


class _PartedDownload:
    """A download of a large file in ranges. Parts from an earlier attempt with correct checksums are kept."""

    def __init__(
        self, transfer: Transfer, key: str, target: str, size: int, checksum: "FileChecksum | None"
    ) -> None:
        self._store = transfer._store
        self._key = key
        self._target = target
        self._scratch = target + ".partial"
        self._size = size
        self._checksum = checksum
        self._part_size = checksum.part_size if checksum else part_size_for(size, 0, 0)
        self.jobs: List[Future[None]] = []

    def start(self, pool: ThreadPoolExecutor) -> None:
        self._is_resumed = os.path.exists(self._scratch)
        with open(self._scratch, "ab") as f:
            f.truncate(self._size)
        offsets = part_offsets(self._size, self._part_size)
        self.jobs = [pool.submit(self._get, n, start) for n, start in enumerate(offsets)]

    def finish(self) -> None:
        os.replace(self._scratch, self._target)

    def _get(self, number: int, start: int) -> None:
        length = min(self._part_size, self._size - start)
        fd = os.open(self._scratch, os.O_RDWR)
        try:
            if not self._is_complete(fd, number, start, length):
                retried(lambda: self._fetch(fd, number, start, length))
        finally:
            os.close(fd)

    def _fetch(self, fd: int, number: int, start: int, length: int) -> None:
        crc = 0
        at = start
        for chunk in self._store.get_range(self._key, start, length):
            _write_at(fd, chunk, at)
            crc = crc32(chunk, crc)
            at += len(chunk)
        if at - start != length or (self._checksum and crc != self._checksum.crcs[number]):
            raise CheckpointCorrupt(
                f"{self._key}: bytes {start} to {start + length} differ from what was saved"
            )

    def _is_complete(self, fd: int, number: int, start: int, length: int) -> bool:
        if not self._is_resumed or self._checksum is None:
            return False
        crc = 0
        for at in range(start, start + length, CHECKED_AT_ONCE):
            crc = crc32(os.pread(fd, min(CHECKED_AT_ONCE, start + length - at), at), crc)
        return crc == self._checksum.crcs[number]


def _write_at(fd: int, data: bytes, at: int) -> None:
    """Write all bytes. When a disk is full, one write is shortened and only the next one raises an error."""
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(fd, remaining, at)
        remaining, at = remaining[written:], at + written


def part_size_for(largest_file: int, total: int, largest_part: int) -> int:
    """Return the part size: 8 MiB, or more for large uploads or if a file would have more parts than stores allow.

    Larger parts need fewer requests, and each request waits for its response.
    """
    part = PART_BYTES
    while 2 * part <= min(largest_part, total // (PART_THREADS * PARTS_A_THREAD)):
        part *= 2
    while part * MAX_PARTS < largest_file:
        part *= 2
    return part


def part_offsets(size: int, part_size: int) -> List[int]:
    return list(range(0, size, part_size))


def retried(work: Callable[[], T]) -> T:
    """Call `work` until it succeeds. SDKs retry requests; this also retries if a connection breaks within a body."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except (FileNotFoundError, PermissionError):
            raise
        except Exception:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.2 * 2**attempt)
    raise AssertionError("unreachable")


def read_checksums(store: ObjectStore, key: str) -> Checksums:
    stored = json.loads(retried(lambda: store.get(key)))
    return {path: FileChecksum.from_json(entry) for path, entry in stored.items()}


def write_checksum_object(store: ObjectStore, key: str, checksums: Checksums) -> None:
    body = json.dumps({path: c.to_json() for path, c in checksums.items()}).encode()
    retried(lambda: store.put(key, body))


def _cancel_and_wait(jobs: Sequence["Future[Any]"]) -> None:
    """Cancel pending jobs and wait for running jobs, ignoring their results."""
    for job in jobs:
        job.cancel()
    wait([job for job in jobs if not job.cancelled()])


def _gather(jobs: Sequence["Future[Any]"]) -> None:
    """Wait for all jobs. After the first failure, cancel the pending jobs and raise the failure."""
    try:
        for job in jobs:
            job.result()
    except BaseException:
        for job in jobs:
            job.cancel()
        raise
