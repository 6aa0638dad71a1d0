"""Rows of model definitions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text, update

from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.schema import contexts, experiments, tasks

# Under names of its own: it is part of the statement that makes an experiment, too.
INSERT = """INSERT INTO contexts (id, size, sha256, content, object_key, uploaded, user_id, created_at)
    VALUES (:context_id, :context_size, :context_sha256, :context_content, :context_object_key, :context_uploaded, :user_id, :now)"""
_INSERT = text(INSERT)
# The index `contexts_sent` contains the rows that count.
COUNTED_FROM = 16 * 1024
_SENT = text("""
    SELECT coalesce(sum(size), 0) FROM contexts
    WHERE user_id = :user_id AND created_at > :since AND size > 16384
""")
# Model definitions of experiments and tasks that are being created are locked, and skipped here.
_DELETE_UNUSED = text("""
    DELETE FROM contexts WHERE id IN (
        SELECT c.id FROM contexts c WHERE c.created_at < :before
            AND NOT EXISTS (SELECT 1 FROM experiments e WHERE e.context_id = c.id)
            AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.context_id = c.id)
        ORDER BY c.id LIMIT :limit FOR UPDATE OF c SKIP LOCKED)
    RETURNING object_key
""")


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


@dataclass(frozen=True, slots=True)
class StoredContext:
    size: int
    sha256: str
    content: bytes | None
    object_key: str | None
    uploaded: bool
    user_id: int | None


@dataclass(frozen=True, slots=True)
class Owner:
    """A task or experiment; without a model definition where `context_id` is None."""

    context_id: UUID | None


def insert(tx: Tx, new: NewContext, user_id: int, now: datetime) -> None:
    tx.execute(_INSERT, {**new.params(), "user_id": user_id, "now": now})


def sent_since(db: Database, user_id: int, since: datetime) -> int:
    """Return the bytes of the archives that a user announced or sent since then, and that are still there."""
    (row,) = db.read(_SENT, {"user_id": user_id, "since": since})
    return int(row[0])


def find(tx: Tx, context_id: UUID) -> StoredContext | None:
    c = contexts.c
    columns = (c.size, c.sha256, c.content, c.object_key, c.uploaded, c.user_id)
    row = tx.execute(select(*columns).where(c.id == context_id)).first()
    return None if row is None else StoredContext(*row)


def uploaded(tx: Tx, context_id: UUID) -> None:
    tx.execute(update(contexts).where(contexts.c.id == context_id).values(uploaded=True))


def delete_unused(tx: Tx, before: datetime, limit: int) -> list[str]:
    """Delete unused model definitions, uploaded or not. Return the keys of their objects, which may not exist."""
    keys = tx.execute(_DELETE_UNUSED, {"before": before, "limit": limit}).scalars()
    return [key for key in keys if key is not None]


def of_task(tx: Tx, task_id: str) -> Owner | None:
    row = tx.execute(select(tasks.c.context_id).where(tasks.c.id == task_id)).first()
    return None if row is None else Owner(*row)


def of_experiment(tx: Tx, experiment_id: int) -> Owner | None:
    of = select(experiments.c.context_id).where(experiments.c.id == experiment_id)
    row = tx.execute(of).first()
    return None if row is None else Owner(*row)
