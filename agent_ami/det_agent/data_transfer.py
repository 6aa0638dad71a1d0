"""Download objects in parallel ranges, and verify them. A file gets its final name when it is complete and verified."""

import errno
import http.client
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from determined.common.connections import pauses

from det_agent.data_checksums import checksum_for
from det_agent.data_objects import (
    DataChanged,
    DataMissing,
    DataRefused,
    DataUnavailable,
    RemoteObject,
)
from det_agent.data_stores import ObjectRequest, Store, raise_for_status
from det_agent.data_web import Web

THREADS = 16
RANGE_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
QUEUED = 4 * THREADS  # ranges that wait for a thread
ATTEMPTS = 5
_REPAIR = "store it again, or correct the manifest"
# Files with this time of change are complete. A program that changes a file changes its time too.
VERIFIED_NS = 1_000_000_000 * 1_000_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ENCRYPTED = ("aws:kms", "aws:kms:dsse")  # their ETags are not the MD5 of the content


class DiskFull(Exception):
    """The disk of the cache is full."""


class Transfer:
    """Downloads objects with threads that all data sets of the agent share."""

    def __init__(self, web: Web, threads: int = THREADS) -> None:
        self._web = web
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="data")

    def download(
        self,
        store: Store,
        objects: Iterable[tuple[RemoteObject, Path]],
        done: Callable[[RemoteObject], None],
        stopped: Callable[[], bool],
    ) -> None:
        """Download objects to paths, and call `done` after each. Raises the first error after all threads stopped."""
        jobs: set[Future[None]] = set()
        begun: list[_Download] = []
        failed = threading.Event()

        def halted() -> bool:
            return failed.is_set() or stopped()

        try:
            for download, number in self._ranges(store, objects, done, halted):
                while len(jobs) >= QUEUED:
                    jobs = _still_running(jobs)
                if halted():
                    break
                if number == 0:
                    begun = [*(one for one in begun if not one.is_done), download]
                jobs.add(self._pool.submit(download.fetch, number))
            while jobs:
                jobs = _still_running(jobs)
        except BaseException:
            failed.set()
            raise
        finally:
            wait(jobs)
            for one in begun:
                one.close()

    def _ranges(
        self,
        store: Store,
        objects: Iterable[tuple[RemoteObject, Path]],
        done: Callable[[RemoteObject], None],
        halted: Callable[[], bool],
    ) -> "Iterator[tuple[_Download, int]]":
        for one, path in objects:
            download = _Download(self._web, store, one, path, done, halted)
            yield from ((download, number) for number in range(download.count))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _still_running(jobs: "set[Future[None]]") -> "set[Future[None]]":
    ended, running = wait(jobs, return_when=FIRST_COMPLETED)
    for job in ended:
        job.result()
    return running


class _Download:
    """An object in ranges. The checksum follows the bytes that are complete from the start on."""

    def __init__(
        self,
        web: Web,
        store: Store,
        one: RemoteObject,
        path: Path,
        done: Callable[[RemoteObject], None],
        halted: Callable[[], bool],
    ) -> None:
        self._web, self._store, self._object, self._path = web, store, one, path
        self._done, self._halted = done, halted
        self.count = max(1, -(-one.size // RANGE_BYTES))
        self._lock = threading.Lock()
        self._complete: set[int] = set()
        self._hashed = 0  # ranges in the checksum
        self._fd = -1
        self._is_encrypted = False
        self.is_done = False

    def fetch(self, number: int) -> None:
        """Download a range, and finish the object after its last one."""
        if self._halted():
            return
        try:
            self._open()
            if self._object.size:
                self._retry(number)
            self._advance(number)
        except OSError as e:
            if e.errno in _FULL:
                raise DiskFull(f"the disk of the data cache {self._path.parent} is full") from e
            raise

    def _open(self) -> None:
        with self._lock:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o444)
                os.ftruncate(self._fd, self._object.size)
                part_size = self._store.part_size(self._object) if self._needs_parts() else 0
                self._checksum = checksum_for(self._object.check, self._object.size, part_size)

    def _needs_parts(self) -> bool:
        return self._object.check.startswith("parts:")

    def _retry(self, number: int) -> None:
        waits = pauses(0.3, 10.0)
        for attempt in range(ATTEMPTS):
            try:
                return self._fetch(number)
            except (DataUnavailable, http.client.HTTPException, OSError) as e:
                is_local = isinstance(e, OSError) and e.errno in _FULL
                if is_local or attempt + 1 == ATTEMPTS or self._halted():
                    if is_local or isinstance(e, DataUnavailable):
                        raise
                    raise DataUnavailable(f"{self._name} cannot be read: {e!r}") from e
                time.sleep(next(waits))
        raise AssertionError("unreachable")

    @property
    def _name(self) -> str:
        return f"object {self._object.path!r}"

    def _fetch(self, number: int) -> None:
        start = number * RANGE_BYTES
        length = min(RANGE_BYTES, self._object.size - start)
        request = self._store.request(self._object)
        headers = dict(request.headers)
        if self.count > 1:
            headers["Range"] = f"bytes={start}-{start + length - 1}"
        with self._web.request("GET", request.url, headers) as response:
            self._check(response, request, is_part=self.count > 1)
            self._receive(response, start, length)

    def _check(
        self, response: http.client.HTTPResponse, request: ObjectRequest, *, is_part: bool
    ) -> None:
        if response.status in (404, 412, 416):
            if response.status == 404:
                raise DataMissing(f"{self._name} is in the listing and does not exist: {_REPAIR}")
            raise DataChanged(f"{self._name} has changed since the data set was listed")
        raise_for_status(response, self._name)
        if is_part and response.status != 206:
            raise DataRefused(
                f"the server of {self._name} sends no ranges, which objects above {RANGE_BYTES // 2**20} MiB need"
            )
        versions = (response.getheader("ETag"), response.getheader("Last-Modified"))
        if request.version and any(versions) and request.version not in versions:
            raise DataChanged(f"{self._name} has changed since the data set was listed")
        if response.getheader("x-amz-server-side-encryption") in _ENCRYPTED:
            self._is_encrypted = True

    def _receive(self, response: http.client.HTTPResponse, start: int, length: int) -> None:
        buffer = memoryview(bytearray(min(CHUNK_BYTES, length)))
        position, end = start, start + length
        while position < end:
            count = response.readinto(buffer[: min(len(buffer), end - position)])
            if not count:
                raise DataUnavailable(
                    f"the store closed the connection inside {self._name}, after {position - start} of {length} bytes"
                )
            _write_at(self._fd, buffer[:count], position)
            position += count
            if self._halted():
                raise DataUnavailable("the download was stopped")
        if response.read(1):
            raise DataChanged(
                f"{self._name} is longer than the {self._object.size} bytes of its listing: {_REPAIR}"
            )

    def _advance(self, number: int) -> None:
        """Add all ranges to the checksum that are complete and come next, and finish after the last one."""
        with self._lock:
            self._complete.add(number)
            while self._hashed in self._complete:
                self._hash(self._hashed)
                self._hashed += 1
            if self._hashed < self.count:
                return
            self._finish()
            self.is_done = True
        self._done(self._object)

    def _hash(self, number: int) -> None:
        if self._checksum is None:
            return
        start = number * RANGE_BYTES
        buffer = memoryview(bytearray(CHUNK_BYTES))
        position, end = start, min(start + RANGE_BYTES, self._object.size)
        while position < end:
            count = os.preadv(self._fd, [buffer[: end - position]], position)
            self._checksum.update(buffer[:count])
            position += count

    def _finish(self) -> None:
        try:
            if self._checksum is not None and not self._is_encrypted:
                expected, actual = self._object.check, self._checksum.text()
                if actual != expected:
                    raise DataChanged(
                        f"{self._name} has the checksum {actual}, and its listing says {expected}:"
                        f" {_REPAIR}"
                    )
            os.fchmod(self._fd, 0o444)
            os.utime(self._fd, ns=(time.time_ns(), VERIFIED_NS))
        finally:
            self.close()

    def close(self) -> None:
        """Close the file. No thread may use the download any more."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _write_at(fd: int, data: memoryview, at: int) -> None:
    """Write all bytes. When a disk is full, one write is shortened and only the next one raises an error."""
    while data:
        written = os.pwrite(fd, data, at)
        data, at = data[written:], at + written
