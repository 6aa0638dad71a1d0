"""The data sets of a task, which `data` of the experiment configuration lists.

A data set with `mode: cached` is complete before the task starts, so programs may read its directory without this
module. Objects of a data set with `mode: stream` are loaded when `open`, `fetch` or `iterate` asks for them.
"""

import builtins
import json
import os
import posixpath
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from determined._task_session import bounded_task_session
from determined.common.http import APIError, RequestFailed

__all__ = ["DataSet", "File", "data_sets", "fetch", "files", "iterate", "open", "path"]

_FETCH_PATH, _FILES_PATH = "/det-agent/data/fetch", "/det-agent/data/files"
_LONGEST_LOAD_S = 600.0  # the agent continues a longer load, and the next attempt waits for it
_TRIES = 5  # a small cache may drop an object before this process opens it


class DataSet(NamedTuple):
    """A data set of this task. `path` is its directory: `at` in containers, another one for tasks without Docker."""

    source: str
    at: str
    mode: str
    path: str


class File(NamedTuple):
    """A file of a data set. `name` begins with the mount point, as for `open`."""

    name: str
    size: int


def data_sets() -> List[DataSet]:
    """Return the data sets of this task, or [] outside of a task."""
    return [DataSet(**entry) for entry in json.loads(os.environ.get("DET_DATA_SETS") or "[]")]


def path(name: str) -> str:
    """Return where a file or directory of a data set is. A file of a stream may not be there yet.

    Names outside of all data sets are returned as they are, so programs also run outside of the cluster."""
    one, relative = _find(name)
    return name if one is None else posixpath.join(one.path, relative).rstrip("/")


def fetch(name: str) -> str:
    """Wait until a file is there, and return its path.

    Raises FileNotFoundError for a file that the data set does not have, and OSError if it cannot be loaded or has a
    wrong checksum."""
    one, relative = _find(name)
    if one is None:
        return name
    local = posixpath.join(one.path, relative)
    if one.mode == "stream" and not os.path.exists(local):
        _ask("POST", _FETCH_PATH, at=one.at, path=relative)
    return local


def open(name: str, mode: str = "rb", **options: Any) -> IO[Any]:
    """Open a file of a data set for reading, like the built-in `open`. Wait until the file is there."""
    if set(mode) & set("wax+"):
        raise ValueError(f"data sets are read-only: open {name} with 'r' or 'rb', not {mode!r}")
    for _ in range(_TRIES - 1):
        local = fetch(name)
        try:
            return builtins.open(local, mode, **options)
        except FileNotFoundError:
            if _find(name)[0] is None:
                raise
    return builtins.open(fetch(name), mode, **options)


def files(at: str) -> List[File]:
    """Return the files of the data set at a mount point, in the order of its listing or manifest."""
    one, _ = _find(at)
    if one is None:
        return sorted(_walk(at, at))
    if one.mode == "cached":
        return sorted(_walk(one.path, one.at))
    answer = _ask("GET", _FILES_PATH, at=one.at)
    return [File(posixpath.join(one.at, name), size) for name, size in answer["files"]]


def iterate(at: str, names: Optional[Iterable[str]] = None, *, ahead: int = 4) -> Iterator[str]:
    """Yield the local paths of files, in order. The next `ahead` files are loaded meanwhile.

    `names` chooses files and their order, for example a shuffled part of `files(at)` for each worker. Open a file
    before the next one is requested: a cache that is smaller than the data set drops files that were read."""
    chosen = iter([file.name for file in files(at)] if names is None else names)
    with ThreadPoolExecutor(max(1, ahead)) as pool:
        waiting: Deque[Future[str]] = deque()
        try:
            for name in chosen:
                waiting.append(pool.submit(fetch, name))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for job in waiting:
                job.cancel()


def _find(name: str) -> Tuple[Optional[DataSet], str]:
    """Return the data set of a name, and the part of the name below its mount point."""
    whole = posixpath.normpath(os.fspath(name))
    for one in data_sets():
        for place in (one.at, one.path):
            if whole == place:
                return one, ""
            if whole.startswith(place + "/"):
                return one, whole[len(place) + 1 :]
    return None, ""


def _walk(folder: str, at: str) -> Iterator[File]:
    for root, _, names in os.walk(folder):
        for name in names:
            local = os.path.join(root, name)
            relative = os.path.relpath(local, folder)
            yield File(posixpath.join(at, relative), os.path.getsize(local))


def _ask(method: str, route: str, **query: str) -> Dict[str, Any]:
    try:
        session = bounded_task_session()
        answer = session.request(method, route, params=query, timeout_s=_LONGEST_LOAD_S)
    except APIError as e:
        error = FileNotFoundError if e.status == 404 else OSError
        raise error(f"{query.get('path') or query['at']}: {e.message}") from e
    except RequestFailed as e:
        raise OSError(f"{query.get('path') or query['at']}: {e}") from e
    return dict(answer or {})
