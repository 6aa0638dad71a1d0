"""The data sets that a cache knows by their sources, on disk, so that an agent reports them after a restart."""

import contextlib
import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from det_controlplane.core.agent_protocol import DataCacheReport, HeldDataSet

from det_agent.data_cache import DataCache
from det_agent.identity import write_atomically

MOST_REPORTED = 64


@dataclass(frozen=True)
class _KnownSet:
    total: int
    names: tuple[str, ...]


class DataIndex:
    """The objects of each data set in its last listing. The least recently used data set comes first."""

    def __init__(self, cache: DataCache) -> None:
        self._cache = cache
        self._folder = cache.root / "sets"
        self._folder.mkdir(exist_ok=True)
        self._sets: OrderedDict[str, _KnownSet] = OrderedDict()
        for path in sorted(self._folder.glob("*.json"), key=lambda p: p.stat().st_mtime):
            with contextlib.suppress(OSError, ValueError, KeyError):
                body = json.loads(path.read_text())
                self._sets[body["source"]] = _KnownSet(body["total"], tuple(body["names"]))

    def remember(self, source: str, total: int, names: Sequence[str]) -> None:
        """Store the listing of a data set that a task begins to use."""
        self._sets[source] = _KnownSet(total, tuple(names))
        self._sets.move_to_end(source)
        body = {"source": source, "total": total, "names": list(names)}
        write_atomically(self._path(source), json.dumps(body))

    def report(self) -> DataCacheReport:
        """Return the data sets of which the cache holds something, and forget the others."""
        held = []
        for source, known in reversed(list(self._sets.items())):
            size = self._cache.size_of(known.names)
            in_use = self._cache.is_used(known.names)
            if size or in_use:
                held.append(HeldDataSet(source, size, known.total, in_use))
            elif not self._cache.is_loading(known.names):
                self._sets.pop(source, None)
                self._path(source).unlink(missing_ok=True)
        return DataCacheReport(self._cache.limit, self._cache.used, tuple(held[:MOST_REPORTED]))

    def _path(self, source: str) -> Path:
        return self._folder / f"{hashlib.sha256(source.encode()).hexdigest()[:32]}.json"
