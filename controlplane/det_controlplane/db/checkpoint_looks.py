"""Which checkpoints were looked for in their storage, and how often in a row nothing was there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, literal, select, text, update

from det_controlplane.db.engine import Tx
from det_controlplane.db.schema import checkpoints
from det_controlplane.db.views import LOOKS_WITHOUT_FILES

_c = checkpoints.c
# Empty directories are not told apart from none by every storage.
_DUE = text("""
    SELECT * FROM (
        SELECT c.uuid, c.experiment_id, c.storage_id, s.config AS storage, s.sealed,
               e.config->'checkpoint_storage' AS of_experiment, e.sealed AS experiment_sealed
        FROM checkpoints c JOIN experiments e ON e.id = c.experiment_id LEFT JOIN storages s ON s.id = c.storage_id
        WHERE c.state IN ('COMPLETED', 'PARTIALLY_DELETED') AND c.size > 0 AND e.state <> 'DELETING'
          AND c.reported_at < :before AND (c.files_looked_at IS NULL OR c.files_looked_at < :before)
        ORDER BY c.files_looked_at NULLS FIRST, c.uuid LIMIT :most) AS oldest
    ORDER BY storage_id, experiment_id, uuid
""")


@dataclass(frozen=True, slots=True)
class Due:
    """Hold a checkpoint that is to be looked for, and its storage: its own, or else that of its experiment."""

    uuid: UUID
    experiment_id: int
    storage_id: int | None
    storage: dict[str, Any] | None
    sealed: str | None
    of_experiment: dict[str, Any] | None
    experiment_sealed: str | None


def due(tx: Tx, before: datetime, most: int) -> list[Due]:
    """Return complete checkpoints that were reported and last looked for before a time."""
    return [Due(*row) for row in tx.execute(_DUE, {"before": before, "most": most})]


def seen(tx: Tx, uuids: Sequence[UUID], now: datetime) -> None:
    """Store that files are there, also of those that were marked."""
    _store(tx, uuids, files_looked_at=now, looks_without_files=0)


def unseen(tx: Tx, uuids: Sequence[UUID], now: datetime) -> None:
    """Store that a storage could not be looked through: others have their turn, and no mark changes."""
    _store(tx, uuids, files_looked_at=now)


def not_found(tx: Tx, uuids: Sequence[UUID], now: datetime) -> list[UUID]:
    """Store that no files are there; return those that this marks."""
    if not uuids:
        return []
    before = (
        select(_c.uuid, _c.looks_without_files.label("looks"))
        .where(_c.uuid.in_(uuids))
        .with_for_update()
        .cte("before")
    )
    stored = (
        update(checkpoints)
        .where(_c.uuid == before.c.uuid)
        .values(
            files_looked_at=now,
            looks_without_files=func.least(
                _c.looks_without_files + 1, literal(LOOKS_WITHOUT_FILES)
            ),
        )
        .returning(_c.uuid, before.c.looks)
    )
    return [row.uuid for row in tx.execute(stored) if row.looks == LOOKS_WITHOUT_FILES - 1]


def _store(tx: Tx, uuids: Sequence[UUID], **values: Any) -> None:
    if uuids:
        tx.execute(update(checkpoints).where(_c.uuid.in_(uuids)).values(values))
