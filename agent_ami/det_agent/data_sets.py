"""The data sets of tasks: load them before a start, load single objects on access, and release them at the end."""

import errno
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from det_controlplane.core.agent_protocol import DataCacheReport, DataMode, DataSetMount, Mount
from det_controlplane.core.datasets.sources import Source, parse_source, shown_bytes
from determined.common.connections import pauses

from det_agent.data_cache import DataCache, TooLittleRoom
from det_agent.data_index import DataIndex
from det_agent.data_objects import DataChanged, DataRefused, DataUnavailable, RemoteObject
from det_agent.data_stores import Store, StoreDependencies, list_objects, open_store
from det_agent.data_transfer import DiskFull, Transfer
from det_agent.identity import write_atomically
from det_agent.runtime import ContainerKey, NoRoom, Say, StartFailed

PROGRESS_S = 30.0
LOOK_S = 2.0  # the interval of looks at a kill, and at room in the cache
LISTING_ATTEMPTS = 4
_KILLED = "the container was killed before it started"
REPORT_KEPT_S = 60.0  # how long the report of an unchanged cache is used again

_log = logging.getLogger(__name__)


class StoreDown(StartFailed):
    """The container never ran because a store does not answer. This machine is not at fault."""


@dataclass
class _TaskSet:
    """A data set of a task, with its directory and its objects by their paths."""

    source: str
    at: str
    mode: DataMode
    folder: Path
    objects: Mapping[str, RemoteObject]
    # The objects that a stream task asked for, the oldest first.
    fetched: dict[str, None] = field(default_factory=dict)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Return the names of the objects in the cache, by path."""
        return {path: one.cache_name(self._origin) for path, one in self.objects.items()}

    @property
    def _origin(self) -> str:
        source = parse_source(self.source)
        return "web" if source.is_web else f"{source.scheme}://{source.place}"

    @property
    def total(self) -> int:
        return sum(one.size for one in self.objects.values())

    def files(self) -> list[tuple[str, int, Path]]:
        names = self.names
        return [(names[path], one.size, self.folder / path) for path, one in self.objects.items()]

    def linked(self) -> Iterator[str]:
        names = self.names
        return (names[path] for path in self.objects if (self.folder / path).exists())


@dataclass(frozen=True)
class PreparedData:
    """The mounts of a task's data sets, and how long they were loaded."""

    mounts: tuple[Mount, ...] = ()
    folders: Mapping[str, str] = field(default_factory=dict)  # on this machine, by mount point
    seconds: float | None = None


@dataclass(frozen=True)
class NoDataSets:
    """Stands for the cache of an agent that has none."""

    reason: str = "this agent has no data cache"

    def prepare(
        self,
        key: ContainerKey,
        data_sets: Sequence[DataSetMount],
        say: Say,
        cancelled: Callable[[], bool],
    ) -> PreparedData:
        if data_sets:
            raise StartFailed("container_failed", f"its data cannot be loaded: {self.reason}")
        return PreparedData()

    def fetch(self, key: ContainerKey, at: str, path: str) -> None:
        raise DataRefused(self.reason)

    def files(self, key: ContainerKey, at: str) -> list[tuple[str, int]]:
        raise DataRefused(self.reason)

    def release(self, key: ContainerKey) -> None:
        """Accept the call without effect."""

    def keep(self, keys: Sequence[ContainerKey]) -> None:
        """Accept the call without effect."""

    def report(self) -> DataCacheReport | None:
        return None

    def close(self) -> None:
        """Accept the call without effect."""


NO_DATA_SETS = NoDataSets()


class DataSets:
    def __init__(
        self, cache: DataCache, stores: StoreDependencies, on_change: Callable[[], None]
    ) -> None:
        self._cache, self._stores, self._on_change = cache, stores, on_change
        self._transfer = Transfer(stores.web)
        self._index = DataIndex(cache)
        self._lock = threading.Lock()
        self._tasks: dict[str, list[_TaskSet]] = {}
        self._open_stores: dict[str, Store] = {}
        self._report: tuple[float, DataCacheReport] | None = None

    def prepare(
        self,
        key: ContainerKey,
        data_sets: Sequence[DataSetMount],
        say: Say,
        cancelled: Callable[[], bool],
    ) -> PreparedData:
        """Load the data sets of a task into directories. Raises StartFailed with a sentence."""
        if not data_sets:
            return PreparedData()
        started = time.monotonic()
        try:
            tasks = self._load_twice(key, data_sets, say, cancelled)
        except BaseException as e:
            self.release(key)
            if cancelled():
                raise StartFailed("aborted", _KILLED) from e
            raise _start_failure(e) from e
        mounts = tuple(Mount(str(task.folder), task.at, read_only=True) for task in tasks)
        folders = {task.at: str(task.folder) for task in tasks}
        return PreparedData(mounts, folders, time.monotonic() - started)

    def fetch(self, key: ContainerKey, at: str, path: str) -> None:
        """Load an object on which a task waits. Raises DataRefused, DataChanged, DataUnavailable and DiskFull."""
        task = self._task(key, at)
        one = task.objects.get(path)
        if one is None:
            raise DataRefused(f"{task.source} had no object {path[:200]!r} when the task started")
        name = task.names[path]
        while self._cache.link([(name, one.size, task.folder / path)]):
            with self._lock:
                is_open = key.place in self._tasks
            if not is_open:
                raise DataRefused("the task has ended")
            try:
                self._load_one(task, name, one)
            except DataChanged as e:
                # The listing of a running task stays, so another request has the same result.
                raise type(e)(f"{e}; then start the task again, which lists its data sets") from e
        with self._lock:
            task.fetched.pop(path, None)
            task.fetched[path] = None

    def files(self, key: ContainerKey, at: str) -> list[tuple[str, int]]:
        """Return the paths and sizes of a task's data set. Raises DataRefused."""
        return [(path, one.size) for path, one in self._task(key, at).objects.items()]

    def release(self, key: ContainerKey) -> None:
        """Delete the directories of a task that has ended. Its objects stay until their room is needed."""
        tasks = self._tasks_of(key)
        with self._lock:
            self._tasks.pop(key.place, None)
        if not tasks and not self._cache.view(key.place).exists():
            return
        names = [name for task in tasks for name in task.linked()]
        self._cache.remove_view(key.place, names)
        self._listing(key).unlink(missing_ok=True)
        self._changed()

    def keep(self, keys: Sequence[ContainerKey]) -> None:
        """Delete the directories of all other tasks, after a restart of the agent."""
        places = {key.place for key in keys}
        self._cache.drop_views(places)
        for path in self._cache.root.glob("listings/*.json"):
            if path.name.removesuffix(".json") not in places:
                path.unlink(missing_ok=True)

    def report(self) -> DataCacheReport | None:
        """Return the content of the cache for the control plane, or None if the disk cannot be read."""
        with self._lock:
            now = time.monotonic()
            if self._report is None or now - self._report[0] > REPORT_KEPT_S:
                try:
                    self._report = now, self._index.report()
                except OSError as e:
                    _log.error("the data cache cannot be read: %s", e)
                    return None
            return self._report[1]

    def close(self) -> None:
        self._transfer.close()
        self._stores.web.close()

    def _load_twice(
        self,
        key: ContainerKey,
        data_sets: Sequence[DataSetMount],
        say: Say,
        cancelled: Callable[[], bool],
    ) -> list[_TaskSet]:
        """Load data sets. If objects changed after the listing, list again once."""
        for is_last in (False, True):
            tasks = [self._list(key, number, one) for number, one in enumerate(data_sets)]
            self._open(key, tasks)
            try:
                self._load(key, [t for t in tasks if t.mode == "cached"], say, cancelled)
                return tasks
            except DataChanged as e:
                if is_last:
                    raise
                say(f"{e}; listing it again")
                self.release(key)
        raise AssertionError("unreachable")

    def _list(self, key: ContainerKey, number: int, one: DataSetMount) -> _TaskSet:
        source = parse_source(one.source)
        waits = pauses(0.5, 10.0)
        for attempt in range(LISTING_ATTEMPTS):
            try:
                objects = list_objects(source, self._stores, self._store_of(source))
                break
            except DataUnavailable:
                if attempt + 1 == LISTING_ATTEMPTS:
                    raise
                time.sleep(next(waits))
        folder = self._cache.view(key.place) / str(number)
        return _TaskSet(one.source, one.at, one.mode, folder, {o.path: o for o in objects})

    def _open(self, key: ContainerKey, tasks: Sequence[_TaskSet]) -> None:
        """Create the directories of a task, and link the objects that are there."""
        self._cache.root.joinpath("listings").mkdir(mode=0o700, exist_ok=True)
        body = [
            [t.source, t.at, t.mode, [one.to_json() for one in t.objects.values()]] for t in tasks
        ]
        write_atomically(self._listing(key), json.dumps(body))
        with self._lock:
            self._tasks[key.place] = list(tasks)
        self._cache.view(key.place).mkdir(mode=0o711, exist_ok=True)
        for task in tasks:
            for folder in {(task.folder / path).parent for path in task.objects}:
                folder.mkdir(parents=True, exist_ok=True)
            task.folder.chmod(0o755)
            if task.mode == "stream":
                self._cache.link(task.files())
            self._index.remember(task.source, task.total, tuple(task.names.values()))

    def _load(
        self,
        key: ContainerKey,
        tasks: Sequence[_TaskSet],
        say: Say,
        cancelled: Callable[[], bool],
    ) -> None:
        total = sum(task.total for task in tasks)
        capacity = self._cache.capacity
        if total > capacity:
            raise DataRefused(
                f"the data sets of this task have {shown_bytes(total)}, and the data cache of its agent can hold"
                f" {shown_bytes(capacity)}: raise data_cache_size of the agent, or use mode: stream"
            )
        files = [file for task in tasks for file in task.files()]
        progress = _Progress(say, total)
        missing, is_first = [files[n] for n in self._cache.link(files)], True
        while missing:
            if cancelled():
                raise StartFailed("aborted", _KILLED)
            if is_first:
                progress.begin(sum(size for _, size, _ in missing))
                is_first = False
            try:
                mine = self._cache.claim([(name, size) for name, size, _ in missing])
            except TooLittleRoom as e:
                # Objects that wait for others must not keep room that another waiting task needs.
                progress.wait(f"waiting for room: {e}")
                for name, _, path in files:
                    if path.exists():
                        self._cache.unlink(name, path)
                with self._cache.changed:
                    self._cache.changed.wait(LOOK_S)
                missing = [files[n] for n in self._cache.link(files)]
                continue
            if mine:
                self._download(tasks, mine, progress, cancelled)
            else:
                self._cache.wait_for([name for name, _, _ in missing], LOOK_S)
            missing = [missing[n] for n in self._cache.link(missing)]
        if tasks:
            progress.end()
        self._changed()

    def _download(
        self,
        tasks: Sequence[_TaskSet],
        mine: set[str],
        progress: "_Progress",
        cancelled: Callable[[], bool],
    ) -> None:
        sizes = {
            n: o.size for t in tasks for p, o in t.objects.items() if (n := t.names[p]) in mine
        }
        remaining = set(mine)
        try:
            for task in tasks:
                wanted = [
                    (one, self._cache.partial(name))
                    for path, one in task.objects.items()
                    if (name := task.names[path]) in remaining
                ]
                remaining -= {path.name for _, path in wanted}

                def done(one: RemoteObject, task: _TaskSet = task) -> None:
                    name = task.names[one.path]
                    self._cache.store(name, one.size)
                    self._cache.link([(name, one.size, task.folder / one.path)])
                    progress.add(one.size)

                store = self._store_of(parse_source(task.source))
                self._transfer.download(store, wanted, done, cancelled)
        finally:
            self._cache.abandon(sizes.items())

    def _load_one(self, task: _TaskSet, name: str, one: RemoteObject) -> None:
        try:
            mine = self._cache.claim([(name, one.size)])
        except TooLittleRoom as e:
            if not self._forget_oldest(task, one.path):
                raise DataUnavailable(f"{one.path} has no room: {e}") from e
            return
        if not mine:
            self._cache.wait_for([name], LOOK_S)
            return
        try:
            self._transfer.download(
                self._store_of(parse_source(task.source)),
                [(one, self._cache.partial(name))],
                lambda one: self._cache.store(name, one.size),
                lambda: False,
            )
        finally:
            self._cache.abandon([(name, one.size)])

    def _forget_oldest(self, task: _TaskSet, wanted: str) -> bool:
        """Remove the object that a stream task asked for first, except the wanted one. Return whether there was one."""
        with self._lock:
            path = next((path for path in task.fetched if path != wanted), None)
            if path is None:
                return False
            del task.fetched[path]
        self._cache.unlink(task.names[path], task.folder / path)
        return True

    def _store_of(self, source: Source) -> Store:
        """Return the client of a bucket. It is kept, because creating one takes 0.2 s."""
        place = "web" if source.is_web else f"{source.scheme}://{source.place}"
        store = self._open_stores.get(place)
        if store is None:
            store = self._open_stores.setdefault(place, open_store(source, self._stores))
        return store

    def _task(self, key: ContainerKey, at: str) -> _TaskSet:
        for task in self._tasks_of(key):
            if task.at == at:
                return task
        raise DataRefused(f"this task has no data set at {at[:200]!r}")

    def _tasks_of(self, key: ContainerKey) -> list[_TaskSet]:
        """Return the data sets of a task. After a restart of the agent, they are read from the disk."""
        with self._lock:
            if key.place in self._tasks:
                return self._tasks[key.place]
        try:
            body = json.loads(self._listing(key).read_text())
        except (OSError, ValueError):
            return []
        view = self._cache.view(key.place)
        tasks = [
            _TaskSet(source, at, mode, view / str(n), {o[0]: RemoteObject(*o) for o in objects})
            for n, (source, at, mode, objects) in enumerate(body)
        ]
        for task in tasks:
            task.fetched = {p: None for p in task.objects if (task.folder / p).exists()}
        with self._lock:
            return self._tasks.setdefault(key.place, tasks)

    def _listing(self, key: ContainerKey) -> Path:
        return self._cache.root / "listings" / f"{key.place}.json"

    def _changed(self) -> None:
        with self._lock:
            self._report = None
        self._on_change()


class _Progress:
    """Writes the progress of a load to the log of the task."""

    def __init__(self, say: Say, total: int) -> None:
        self._say, self._total = say, total
        self._lock = threading.Lock()
        self._missing = self._loaded = 0
        self._started = self._said = time.monotonic()
        self._waits = ""

    def begin(self, missing: int) -> None:
        self._missing = missing
        cached = self._total - missing
        here = f", {shown_bytes(cached)} are in the cache" if cached else ""
        self._say(f"Loading {shown_bytes(missing)} of data sets{here}")

    def add(self, size: int) -> None:
        with self._lock:
            self._loaded += size
            now = time.monotonic()
            if now - self._said < PROGRESS_S:
                return
            self._said = now
        self._say(f"Loaded {shown_bytes(self._loaded)} of {shown_bytes(self._missing)}")

    def wait(self, sentence: str) -> None:
        if sentence != self._waits:
            self._waits = sentence
            self._say(sentence[0].upper() + sentence[1:])

    def end(self) -> None:
        seconds = time.monotonic() - self._started
        if not self._loaded:
            return self._say(f"Data sets are in the cache: {shown_bytes(self._total)}")
        rate = shown_bytes(self._loaded / max(seconds, 0.001))
        return self._say(f"Loaded {shown_bytes(self._loaded)} in {seconds:.1f} s, {rate}/s")


def _start_failure(error: BaseException) -> BaseException:
    if isinstance(error, (DataRefused, DataChanged)):
        return StartFailed("container_failed", f"its data cannot be loaded: {error}")
    if isinstance(error, DataUnavailable):
        return StoreDown("agent_error", f"its data cannot be loaded now: {error}")
    if isinstance(error, DiskFull):
        return NoRoom("agent_error", str(error))
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoom("agent_error", f"the disk of the data cache is full: {error}")
    return error
