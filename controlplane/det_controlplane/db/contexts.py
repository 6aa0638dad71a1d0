"""Rows of model definitions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.db.engine import Tx

# Under names of its own: it is part of the statement that makes an experiment, too.
INSERT = """INSERT INTO contexts (id, size, sha256, content, object_key, uploaded, user_id, created_at)
    VALUES (:context_id, :context_size, :context_sha256, :context_content, :context_object_key, :context_uploaded, :user_id, :now)"""
_INSERT = text(INSERT)


@dataclass(frozen=True, slots=True)
class NewContext:
    id: UUID
    size: int
    sha256: str
    content: bytes | None  # None: it is in the object store
    object_key: str | None
    uploaded: bool

    def params(self) -> dict[str, Any]:
        return {f"context_{name}": getattr(self, name) for name in NewContext.__slots__}


def insert(tx: Tx, new: NewContext, user_id: int, now: datetime) -> None:
    tx.execute(_INSERT, {**new.params(), "user_id": user_id, "now": now})
