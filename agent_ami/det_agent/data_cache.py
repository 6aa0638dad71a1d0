"""The objects on the machine's disk that all tasks share, and the directories ("views") that tasks see.

`objects/` has each verified version of an object once. A view is a tree of hard links to them, so an object in use has
more than one link. `partial/` has downloads. A changed file, and every file after a restart of the machine, is dropped.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from det_controlplane.core.datasets.eviction import CachedObject, make_room
from det_controlplane.core.datasets.sources import shown_bytes

from det_agent.data_transfer import VERIFIED_NS

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KEPT_FREE_BYTES = 1024**3  # of the disk, for logs, images and reports
AT_ONCE = 1000  # objects that are linked under the lock

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    size: int
    used_at: float
    links: int = 0  # from views


class TooLittleRoom(Exception):
    """The cache has no room now, because tasks use its objects."""


class DataCache:
    """A directory of objects, bounded in size. Methods may be called from many threads."""

    def __init__(self, root: Path, limit: int, now: Callable[[], float] = time.time) -> None:
        """Open the cache. `limit` is its size in bytes; 0 means half of the disk. Raises OSError."""
        self.root, self._limit, self._now = root, limit, now
        self.changed = threading.Condition()
        self._entries: dict[str, _Entry] = {}
        self._loading: set[str] = set()
        self._reserved = self._used = 0
        for name in ("objects", "partial", "views"):
            (root / name).mkdir(parents=True, exist_ok=True)
            (root / name).chmod(0o711)
        self._claim()
        self._drop_after_restart()
        shutil.rmtree(root / "partial")
        (root / "partial").mkdir(mode=0o711)
        self._read_entries()

    def close(self) -> None:
        """Leave the directory to another process."""
        self._lock_file.close()

    @property
    def limit(self) -> int:
        """Return the size of the cache, also if other files leave less room on the disk."""
        disk = os.statvfs(self.root)
        return self._limit or disk.f_blocks * disk.f_frsize // 2

    @property
    def capacity(self) -> int:
        """Return the most bytes that the cache may hold now."""
        disk = os.statvfs(self.root)
        free = disk.f_bavail * disk.f_frsize
        return max(0, min(self.limit, self.used + free - KEPT_FREE_BYTES))

    @property
    def used(self) -> int:
        return self._used

    def size_of(self, names: Iterable[str]) -> int:
        """Return how many bytes of these objects the cache holds."""
        with self.changed:
            return sum(self._entries[n].size for n in names if n in self._entries)

    def is_used(self, names: Iterable[str]) -> bool:
        with self.changed:
            return any(self._entries[n].links for n in names if n in self._entries)

    def is_loading(self, names: Iterable[str]) -> bool:
        with self.changed:
            return any(name in self._loading for name in names)

    def partial(self, name: str) -> Path:
        return self.root / "partial" / name

    def view(self, place: str) -> Path:
        return self.root / "views" / place

    def link(self, files: Sequence[tuple[str, int, Path]]) -> list[int]:
        """Link objects of these names and sizes into a view. Return the positions of the missing objects."""
        missing: list[int] = []
        for start in range(0, len(files), AT_ONCE):
            with self.changed:
                for position in range(start, min(start + AT_ONCE, len(files))):
                    if not self._link(*files[position]):
                        missing.append(position)
        return missing

    def claim(self, files: Sequence[tuple[str, int]]) -> set[str]:
        """Reserve room for missing objects that no thread loads yet, and return their names.

        Raises TooLittleRoom without a reservation if objects in use leave too little."""
        with self.changed:
            new = {name: size for name, size in files if self._is_missing(name)}
            needed = sum(new.values())
            self._make_room(needed + self._reserved)
            self._reserved += needed
            self._loading.update(new)
            return set(new)

    def store(self, name: str, size: int) -> None:
        """Take a complete download into the cache."""
        path = self._object(name)
        path.parent.mkdir(mode=0o711, exist_ok=True)
        os.replace(self.partial(name), path)
        with self.changed:
            self._entries[name] = _Entry(size, self._now())
            self._used += size
            self._end_loading(name, size)

    def abandon(self, files: Iterable[tuple[str, int]]) -> None:
        """Give up downloads that did not complete."""
        with self.changed:
            for name, size in files:
                if name in self._loading:
                    self.partial(name).unlink(missing_ok=True)
                    self._end_loading(name, size)

    def wait_for(self, names: Iterable[str], timeout_s: float) -> bool:
        """Return whether no other thread loads one of these objects any more."""
        wanted = set(names)
        with self.changed:
            return self.changed.wait_for(lambda: not wanted & self._loading, timeout_s)

    def unlink(self, name: str, path: Path) -> None:
        """Remove an object from a view. Programs that have it open can still read it."""
        with self.changed:
            path.unlink(missing_ok=True)
            self._release([name])

    def remove_view(self, place: str, names: Iterable[str]) -> None:
        """Delete a view with links to these objects, which may then be evicted."""
        shutil.rmtree(self.view(place), ignore_errors=True)
        with self.changed:
            self._release(names)

    def views(self) -> list[str]:
        return sorted(os.listdir(self.root / "views"))

    def drop_views(self, kept: Iterable[str]) -> None:
        """Delete the views of an earlier process of this agent, except the views of running tasks."""
        for place in set(self.views()) - set(kept):
            shutil.rmtree(self.view(place), ignore_errors=True)
        with self.changed:
            self._read_entries()

    def _claim(self) -> None:
        self._lock_file = open(self.root / "lock", "w")  # noqa: SIM115
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock_file.close()
            raise OSError(
                f"the data cache {self.root} belongs to another agent: give this one another data_dir"
            ) from None

    def _drop_after_restart(self) -> None:
        """Empty the cache if the machine was restarted, because its last writes may be lost."""
        with contextlib.suppress(OSError):
            boot_id = _BOOT_ID.read_text().strip()
            marker = self.root / "boot_id"
            if marker.exists() and marker.read_text() == boot_id:
                return
            shutil.rmtree(self.root / "objects")
            (self.root / "objects").mkdir(mode=0o711)
            marker.write_text(boot_id)

    def _read_entries(self) -> None:
        self._entries.clear()
        self._used = 0
        for path, info in _files(self.root / "objects"):
            if info.st_mtime_ns != VERIFIED_NS:
                path.unlink(missing_ok=True)
                continue
            self._used += info.st_size
            self._entries[path.name] = _Entry(info.st_size, info.st_atime, info.st_nlink - 1)

    def _object(self, name: str) -> Path:
        return self.root / "objects" / name[:2] / name

    def _is_missing(self, name: str) -> bool:
        return name not in self._entries and name not in self._loading

    def _end_loading(self, name: str, size: int) -> None:
        self._loading.discard(name)
        self._reserved -= size
        self.changed.notify_all()

    def _link(self, name: str, size: int, path: Path) -> bool:
        entry = self._entries.get(name)
        if entry is None:
            return False
        stored = self._object(name)
        try:
            info = os.stat(stored)
            if info.st_size != size or info.st_mtime_ns != VERIFIED_NS:
                _log.warning("%s was changed on this machine, and is loaded again", stored)
                raise FileNotFoundError
            entry.used_at = self._now()
            os.utime(stored, ns=(int(entry.used_at * 1e9), VERIFIED_NS))
            with contextlib.suppress(FileExistsError):
                os.link(stored, path)
                entry.links += 1
        except FileNotFoundError:
            self._drop(name)
            return False
        return True

    def _drop(self, name: str) -> None:
        self._object(name).unlink(missing_ok=True)
        self._used -= self._entries.pop(name).size

    def _release(self, names: Iterable[str]) -> None:
        for name in names:
            entry = self._entries.get(name)
            if entry is not None and entry.links:
                entry.links -= 1
        self.changed.notify_all()

    def _make_room(self, needed: int) -> None:
        capacity = self.capacity
        if self._used + needed <= capacity:
            return
        objects = (
            CachedObject(name, entry.size, entry.used_at, entry.links > 0)
            for name, entry in self._entries.items()
        )
        leaving = make_room(objects, needed, capacity)
        if leaving is None:
            raise TooLittleRoom(
                f"the data cache has {shown_bytes(capacity)}, and running tasks use its data sets"
            )
        for name in leaving:
            self._drop(name)
        if leaving:
            _log.info("%d objects left the data cache to make room", len(leaving))


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            else:
                yield Path(entry.path), entry.stat(follow_symlinks=False)
