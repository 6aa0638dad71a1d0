"""What is shown of experiments and hardly ever changes, kept by the process that has read it.

Listings ask for versions only. A text is used while its version is the one that the database has just told, so
no other process ever has to say that it changed something.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping

from det_controlplane.db.engine import Database
from det_controlplane.db.sql import text

MOST_BYTES = 8 << 20

_TEXTS = text("""
    SELECT experiment_id, version, concat('{', shown, ',"config":', config) AS begun
    FROM experiment_texts WHERE experiment_id = ANY(cast(:ids AS integer[]))
""")


class ExperimentTexts:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[int, tuple[int, str]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, db: Database, versions: Mapping[int, int]) -> dict[int, str]:
        """The beginning of each experiment's JSON; those that were deleted in this moment are left out."""
        with self._lock:
            found = {
                id: begun for id, wanted in versions.items() if (begun := self._get(id, wanted))
            }
        missing = [id for id in versions if id not in found]
        if missing:
            for row in db.read(_TEXTS, {"ids": missing}):
                found[row.experiment_id] = row.begun
                self._keep(row.experiment_id, row.version, row.begun)
        return found

    def _get(self, id: int, wanted: int) -> str | None:
        version, begun = self._kept.get(id, (0, ""))
        if version != wanted:
            return None
        self._kept.move_to_end(id)
        return begun

    def _keep(self, id: int, version: int, begun: str) -> None:
        with self._lock:
            _, before = self._kept.pop(id, (0, ""))
            self._kept[id] = (version, begun)
            self._size += len(begun) - len(before)
            while self._size > self._most:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._size -= len(oldest)
