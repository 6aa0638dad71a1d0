"""Pools that need a scheduling pass, and effects that are due."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine import Tx, as_json

_MARK_DIRTY = text(
    "INSERT INTO pools (name) VALUES (:name) ON CONFLICT (name) DO UPDATE SET marked = pools.marked + 1"
)
_DIRTY = text("SELECT name FROM pools WHERE dirty ORDER BY name")
_MARKS = text("SELECT marked FROM pools WHERE name = :name")
_ANSWER = text("""
    UPDATE pools SET answered = greatest(answered, :marks), scheduled_at = :now WHERE name = :name
""")
_ADD = text("""
    INSERT INTO outbox (kind, payload, due_at, created_at) VALUES (:kind, cast(:payload AS jsonb), :now, :now)
""")
_CLAIM = text("""
    UPDATE outbox SET attempts = attempts + 1, due_at = cast(:now AS timestamptz) + make_interval(secs => least(15 * 2 ^ attempts, 900))
    WHERE id = (SELECT id FROM outbox WHERE due_at <= :now ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, kind, payload, attempts
""")
_WAIT = text("""
    UPDATE outbox SET due_at = cast(:now AS timestamptz) + make_interval(secs => least(2 * attempts, 60)) WHERE id = :id
""")
_HASTEN = text("UPDATE outbox SET due_at = :now WHERE kind <> 'checkpoint_gc' AND due_at > :now")
_DONE = text("DELETE FROM outbox WHERE id = :id")
_NEXT_DUE = text("SELECT min(due_at) FROM outbox")


@dataclass(frozen=True, slots=True)
class Effect:
    id: int
    kind: str
    payload: dict[str, Any]
    attempts: int


def mark_dirty(tx: Tx, pool: str) -> None:
    """Everybody writes to this row: as the last write it travels with the commit, and is locked no longer than that."""
    tx.execute(_MARK_DIRTY, {"name": pool})


def dirty_pools(tx: Tx) -> list[str]:
    return [r[0] for r in tx.execute(_DIRTY).all()]


def marks(tx: Tx, pool: str) -> int:
    """How often the pool was marked: read before anything that a pass decides on."""
    return int(tx.execute(_MARKS, {"name": pool}).scalar() or 0)


def answer(tx: Tx, pool: str, marks: int, now: datetime) -> None:
    """The pass is done: the pool is dirty only if it was marked since."""
    tx.execute(_ANSWER, {"name": pool, "marks": marks, "now": now})


def add_to_outbox(tx: Tx, kind: str, payload: Mapping[str, object], now: datetime) -> None:
    tx.execute(_ADD, {"kind": kind, "payload": as_json(payload), "now": now})


def claim_effect(tx: Tx, now: datetime) -> Effect | None:
    """The next due effect; until it is marked done it comes back, later each time."""
    row = tx.execute(_CLAIM, {"now": now}).first()
    return None if row is None else Effect(**row._mapping)


def effect_waits(tx: Tx, effect_id: int, now: datetime) -> None:
    """Nothing failed: it depends on something that takes a moment."""
    tx.execute(_WAIT, {"id": effect_id, "now": now})


def hasten_deletions(tx: Tx, now: datetime) -> bool:
    """Something that deletions wait for is gone; whether any waits."""
    return tx.execute(_HASTEN, {"now": now}).rowcount > 0


def effect_done(tx: Tx, effect_id: int) -> None:
    tx.execute(_DONE, {"id": effect_id})


def next_effect_due(tx: Tx) -> datetime | None:
    due: datetime | None = tx.execute(_NEXT_DUE).scalar()
    return due
