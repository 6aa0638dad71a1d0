"""Folded searches kept in memory between requests, so that a decision does not replay its experiment's history."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from det_controlplane.core.search import Search

_CAPACITY = 256


@dataclass(slots=True)
class CachedSearch:
    seq: int
    search: "Search"


class SearchCache:
    """Lends a search to one transaction at a time: who takes it brings it back after its commit, or drops it."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, CachedSearch] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, experiment_id: int) -> CachedSearch | None:
        with self._lock:
            return self._entries.pop(experiment_id, None)

    def give_back(self, experiment_id: int, entry: CachedSearch) -> None:
        with self._lock:
            present = self._entries.get(experiment_id)
            if present is None or present.seq < entry.seq:
                self._entries[experiment_id] = entry
                self._entries.move_to_end(experiment_id)
            while len(self._entries) > _CAPACITY:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
