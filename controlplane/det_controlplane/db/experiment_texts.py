"""What is shown of experiments, kept by the process that has read it until their versions change.

Listings ask for versions only, each experiment's as `id.version`. A text is used while its version is the one that
the database has just told, so no other process ever has to say that it changed something.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from det_controlplane.db import views
from det_controlplane.db.engine import Database, Tx
from det_controlplane.db.sql import text

MOST_BYTES = 8 << 20

# An experiment's JSON without its state, its duration and the end.
_BEGUN = f"""'{{"config":', d.config, {views.EXPERIMENT_FIELDS}"""

_TEXTS = text(f"""
    SELECT e.id, e.text_version AS version, (SELECT names_version FROM cluster) AS names, concat({_BEGUN}) AS begun
    FROM {views.EXPERIMENT_FROM} WHERE e.id = ANY(cast(:ids AS integer[]))
""")
_ONE = text(f"""
    SELECT concat({_BEGUN}, ',"state":"', s.state, '","duration":', {views.EXPERIMENT_DURATION}, '}}') AS shown,
        d.config, s.state, j.pool, e.job_id::text AS job_id
    FROM {views.EXPERIMENT_FROM}, LATERAL (SELECT {views.EXPERIMENT_STATE} AS state OFFSET 0) s WHERE e.id = :id
""")


@dataclass(frozen=True, slots=True)
class ShownExperiment:
    shown: str  # JSON, as `config` is
    config: str
    state: str
    pool: str
    job_id: str


def one(db: Database, experiment_id: int) -> ShownExperiment | None:
    found = db.read(_ONE, {"id": experiment_id})
    return ShownExperiment(*found[0]) if found else None


def one_at_commit(tx: Tx, experiment_id: int) -> ShownExperiment:
    """As its transaction leaves it, with which the transaction ends."""
    return ShownExperiment(*tx.rows_last(_ONE, {"id": experiment_id})[0])


class ExperimentTexts:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._names = -1  # the version of others' names that all texts here were read with
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, db: Database, names: int, versions: Sequence[str]) -> dict[str, bytes]:
        """The beginning of each experiment's JSON; those that were deleted in this moment are left out."""
        kept, found = self._kept, {}
        with self._lock:
            if names != self._names:
                self._forget(names)
            for version in versions:
                if version in kept:
                    kept.move_to_end(version)
                    found[version] = kept[version]
        if len(found) < len(versions):
            found.update(self._read(db, [v for v in versions if v not in found]))
        return found

    def _read(self, db: Database, versions: Sequence[str]) -> dict[str, bytes]:
        """What a text says now, though it may have changed since its version was told."""
        asked = {int(version.partition(".")[0]): version for version in versions}
        found = {}
        for row in db.read(_TEXTS, {"ids": list(asked)}):
            found[asked[row.id]] = begun = row.begun.encode()
            self._keep(row.names, f"{row.id}.{row.version}", begun)
        return found

    def _keep(self, names: int, version: str, begun: bytes) -> None:
        with self._lock:
            if names != self._names:
                self._forget(names)
            self._size += len(begun) - len(self._kept.get(version, b""))
            self._kept[version] = begun
            while self._size > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)

    def _forget(self, names: int) -> None:
        self._names, self._size = names, 0
        self._kept.clear()
