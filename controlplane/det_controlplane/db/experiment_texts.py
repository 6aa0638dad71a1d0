"""What is shown of experiments and hardly ever changes, kept by the process that has read it.

Listings ask for versions only, each experiment's as `id.version`. A text is used while its version is the one that
the database has just told, so no other process ever has to say that it changed something.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from det_controlplane.db.engine import Database
from det_controlplane.db.sql import text

MOST_BYTES = 8 << 20

_TEXTS = text("""
    SELECT d.experiment_id, e.text_version AS version, concat('{', d.shown, ',"config":', d.config) AS begun
    FROM experiment_texts d JOIN experiments e ON e.id = d.experiment_id
    WHERE d.experiment_id = ANY(cast(:ids AS integer[]))
""")


class ExperimentTexts:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, db: Database, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The beginning of each experiment's JSON; those that were deleted in this moment are left out."""
        kept, found = self._kept, {}
        with self._lock:
            for key in keys:
                if key in kept:
                    kept.move_to_end(key)
                    found[key] = kept[key]
        if len(found) < len(keys):
            found.update(self._read(db, [key for key in keys if key not in found]))
        return found

    def _read(self, db: Database, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """What a text says now, though it may have changed since its key was told."""
        asked = {int(key.partition(b".")[0]): key for key in keys}
        found = {}
        for row in db.read(_TEXTS, {"ids": list(asked)}):
            found[asked[row.experiment_id]] = begun = row.begun.encode()
            self._keep(b"%d.%d" % (row.experiment_id, row.version), begun)
        return found

    def _keep(self, key: bytes, begun: bytes) -> None:
        with self._lock:
            self._size += len(begun) - len(self._kept.get(key, b""))
            self._kept[key] = begun
            while self._size > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)
