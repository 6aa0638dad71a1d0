"""Keep effects that are due after a commit, at least once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema.enums import EffectKind

_outbox = schema.outbox.c
_ADD = insert(schema.outbox).inline()
_CLAIM = text("""
    UPDATE outbox SET attempts = attempts + 1, due_at = cast(:now AS timestamptz) + make_interval(secs => least(15 * 2 ^ attempts, 900))
    WHERE id = (SELECT id FROM outbox WHERE due_at <= :now AND (kind = 'webhook') = :of_webhooks
                ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, kind, payload, attempts, due_at AS again_at
""")
_DELAY = text("""
    UPDATE outbox SET due_at = cast(:now AS timestamptz) + make_interval(secs => least(2 * attempts, 60)) WHERE id = :id
""")
_GO_ON = text("""
    UPDATE outbox SET attempts = 0, due_at = cast(:now AS timestamptz) + interval '1 second' WHERE id = :id
""")
_HASTEN = (
    update(schema.outbox)
    .where(
        _outbox.kind.not_in([EffectKind.CHECKPOINT_GC, EffectKind.WEBHOOK]),
        _outbox.due_at > bindparam("now"),
    )
    .values(due_at=bindparam("now"))
)
_REMOVE = delete(schema.outbox).where(_outbox.id == bindparam("id"))
_NEXT_DUE = select(func.min(_outbox.due_at)).where(
    (_outbox.kind == EffectKind.WEBHOOK) == bindparam("of_webhooks")
)


@dataclass(frozen=True, slots=True)
class Effect:
    id: int
    kind: EffectKind
    payload: dict[str, Any]
    attempts: int
    again_at: datetime  # when it comes back unless it is marked done


def add(tx: Tx, kind: EffectKind, payload: Mapping[str, object], now: datetime) -> None:
    tx.execute(_ADD, {"kind": kind, "payload": payload, "due_at": now, "created_at": now})


def claim(tx: Tx, now: datetime, *, of_webhooks: bool = False) -> Effect | None:
    """Return the next due effect; until it is marked done it comes back, later each time."""
    row = tx.execute(_CLAIM, {"now": now, "of_webhooks": of_webhooks}).first()
    return None if row is None else Effect(**{**row._mapping, "kind": EffectKind(row.kind)})


def delay(tx: Tx, effect_id: int, now: datetime) -> None:
    """Try an effect again soon: nothing failed, it depends on something that takes a moment."""
    tx.execute(_DELAY, {"id": effect_id, "now": now})


def go_on(tx: Tx, effect_id: int, now: datetime) -> None:
    """Continue an effect in a second: a part of it is done."""
    tx.execute(_GO_ON, {"id": effect_id, "now": now})


def hasten_deletions(tx: Tx, now: datetime) -> bool:
    """Try deletions now, as something that they wait for is gone; return whether any waits."""
    return tx.execute(_HASTEN, {"now": now}).rowcount > 0


def remove(tx: Tx, effect_id: int) -> None:
    tx.execute(_REMOVE, {"id": effect_id})


def next_due(tx: Tx, *, of_webhooks: bool = False) -> datetime | None:
    return tx.execute(_NEXT_DUE, {"of_webhooks": of_webhooks}).scalar()
