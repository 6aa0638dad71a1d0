"""Checkpoints that were looked for in their storage, and how often in a row no file was there."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, literal, select, text, update

from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.engine.views import LOOKS_WITHOUT_FILES
from det_controlplane.db.schema import checkpoints

_c = checkpoints.c
# Fields that locate a storage. Its keys do not matter.
_PLACE = (
    "type", "bucket", "prefix", "endpoint_url", "host_path", "storage_path", "container_path"
)  # fmt: skip
# Escapes may encode characters that jsonb refuses. Some storages do not distinguish empty directories from missing
# ones.
_DUE = text(f"""
    SELECT c.uuid
    FROM checkpoints c JOIN experiments e ON e.id = c.experiment_id LEFT JOIN storages s ON s.id = c.storage_id,
         LATERAL (SELECT coalesce(cast(s.config AS text), cast(e.config->'checkpoint_storage' AS text)) AS stored) AS of,
         LATERAL (SELECT CASE WHEN position('\\u' IN of.stored) = 0 THEN cast(of.stored AS jsonb) END AS place) AS own
    WHERE c.state IN ('COMPLETED', 'PARTIALLY_DELETED') AND c.size > 0 AND e.state <> 'DELETING'
      AND c.reported_at < :before AND coalesce(c.files_looked_at, '-infinity') < :before
      AND jsonb_strip_nulls(jsonb_build_object({", ".join(f"'{k}', own.place->'{k}'" for k in _PLACE)}))
          = cast(:place AS jsonb)
    ORDER BY coalesce(c.files_looked_at, '-infinity'), c.uuid LIMIT :most
""")


def due(tx: Tx, storage: Mapping[str, Any], before: datetime, most: int) -> list[UUID]:
    """Return complete checkpoints in a storage that were reported and last looked for before a time."""
    place = {key: storage[key] for key in _PLACE if storage.get(key) is not None}
    params = {"place": as_json(place), "before": before, "most": most}
    return list(tx.execute(_DUE, params).scalars())


def seen(tx: Tx, uuids: Sequence[UUID], now: datetime) -> None:
    """Store that the files exist, and clear marks."""
    _store(tx, uuids, files_looked_at=now, looks_without_files=0)


def unseen(tx: Tx, uuids: Sequence[UUID], now: datetime) -> None:
    """Store that a storage could not be listed: the next one is tried, and no checkpoint is marked."""
    _store(tx, uuids, files_looked_at=now)


def not_found(tx: Tx, uuids: Sequence[UUID], now: datetime) -> list[UUID]:
    """Store that the files are missing. Return the checkpoints that this marks."""
    if not uuids:
        return []
    before = (
        select(_c.uuid, _c.looks_without_files.label("looks"))
        .where(_c.uuid.in_(uuids))
        .with_for_update()
        .cte("before")
    )
    statement = (
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
    return [row.uuid for row in tx.execute(statement) if row.looks == LOOKS_WITHOUT_FILES - 1]


def _store(tx: Tx, uuids: Sequence[UUID], **values: Any) -> None:
    if uuids:
        tx.execute(update(checkpoints).where(_c.uuid.in_(uuids)).values(values))
