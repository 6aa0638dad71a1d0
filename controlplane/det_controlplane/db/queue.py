"""Pools that need a scheduling pass, and effects that are due."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db import schema
from det_controlplane.db.engine import Tx
from det_controlplane.db.schema.enums import EffectKind

_pools, _outbox = schema.pools.c, schema.outbox.c
_MARK_DIRTY = insert(schema.pools).on_conflict_do_update(
    index_elements=[_pools.name], set_={"marked": _pools.marked + 1}
)
_DIRTY = select(_pools.name).where(_pools.dirty).order_by(_pools.name)
_MARKS = select(_pools.marked).where(_pools.name == bindparam("pool"))
_ANSWER = (
    update(schema.pools)
    .where(_pools.name == bindparam("pool"))
    .values(answered=func.greatest(_pools.answered, bindparam("marks", type_=_pools.answered.type)))
)
_ADD = insert(schema.outbox).inline()
_CLAIM = text("""
    UPDATE outbox SET attempts = attempts + 1, due_at = cast(:now AS timestamptz) + make_interval(secs => least(15 * 2 ^ attempts, 900))
    WHERE id = (SELECT id FROM outbox WHERE due_at <= :now AND (kind = 'webhook') = :of_webhooks
                ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, kind, payload, attempts
""")
_WAIT = text("""
    UPDATE outbox SET due_at = cast(:now AS timestamptz) + make_interval(secs => least(2 * attempts, 60)) WHERE id = :id
""")
_HASTEN = update(schema.outbox).where(
    _outbox.kind.not_in([EffectKind.CHECKPOINT_GC, EffectKind.WEBHOOK]),
    _outbox.due_at > bindparam("now"),
)
_DONE = delete(schema.outbox).where(_outbox.id == bindparam("id"))
_NEXT_DUE = select(func.min(_outbox.due_at)).where(
    (_outbox.kind == EffectKind.WEBHOOK) == bindparam("of_webhooks")
)


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
    return list(tx.execute(_DIRTY).scalars())


def marks(tx: Tx, pool: str) -> int:
    """How often the pool was marked: read before anything that a pass decides on."""
    return tx.execute(_MARKS, {"pool": pool}).scalar() or 0


def answer(tx: Tx, pool: str, marks: int, now: datetime) -> None:
    """The pass is done: the pool is dirty only if it was marked since."""
    tx.execute(_ANSWER, {"pool": pool, "marks": marks, "scheduled_at": now})


def add_to_outbox(tx: Tx, kind: str, payload: Mapping[str, object], now: datetime) -> None:
    tx.execute(_ADD, {"kind": kind, "payload": payload, "due_at": now, "created_at": now})


def claim_effect(tx: Tx, now: datetime, *, of_webhooks: bool = False) -> Effect | None:
    """Return the next due effect; until it is marked done it comes back, later each time."""
    row = tx.execute(_CLAIM, {"now": now, "of_webhooks": of_webhooks}).first()
    return None if row is None else Effect(**row._mapping)


def effect_waits(tx: Tx, effect_id: int, now: datetime) -> None:
    """Nothing failed: it depends on something that takes a moment."""
    tx.execute(_WAIT, {"id": effect_id, "now": now})


def hasten_deletions(tx: Tx, now: datetime) -> bool:
    """Something that deletions wait for is gone; whether any waits."""
    return tx.execute(_HASTEN, {"now": now, "due_at": now}).rowcount > 0


def effect_done(tx: Tx, effect_id: int) -> None:
    tx.execute(_DONE, {"id": effect_id})


def next_effect_due(tx: Tx, *, of_webhooks: bool = False) -> datetime | None:
    return tx.execute(_NEXT_DUE, {"of_webhooks": of_webhooks}).scalar()
