"""Rows of pools that launch nothing, and when operators let them launch again."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, delete, func, literal, or_, select, text
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.provision.model import Hold
from det_controlplane.db import schema
from det_controlplane.db.engine import Tx

_h = schema.pool_holds.c
_HOLD = insert(schema.pool_holds)
_SET_HOLD = _HOLD.on_conflict_do_update(
    index_elements=[_h.pool],
    set_={name: _HOLD.excluded[name] for name in ("sentence", "until", "held_at", "by_operator")},
    # An operator's word replaces any other; of the rest the one that lasts longer stays.
    where=or_(
        _HOLD.excluded.by_operator,
        _h.until <= _HOLD.excluded.held_at,
        _h.until < func.coalesce(_HOLD.excluded.until, text("'infinity'")),
    ),
)
_OF_BUDGET = and_(~_h.by_operator, _h.until.is_(None))
_RESUMED = insert(schema.pools)
_SET_RESUMED = _RESUMED.on_conflict_do_update(
    index_elements=[schema.pools.c.name], set_={"resumed_at": _RESUMED.excluded.resumed_at}
)


def every(tx: Tx, now: datetime) -> dict[str, Hold]:
    """Return the pools that launch nothing now, with the reason."""
    live = or_(_h.until.is_(None), _h.until > now)
    found = select(_h.pool, _h.sentence, _h.until, _OF_BUDGET.label("of_budget")).where(live)
    return {
        r.pool: Hold(r.sentence, None if r.until is None else r.until.timestamp(), r.of_budget)
        for r in tx.execute(found).all()
    }


@dataclass(frozen=True, slots=True)
class PastHold:
    """Tell when a pool was last held, until when if that is known, and whether by an operator; it may be over."""

    held_at: datetime
    until: datetime | None
    by_operator: bool


def last(tx: Tx, pool: str) -> PastHold | None:
    row = tx.execute(select(_h.held_at, _h.until, _h.by_operator).where(_h.pool == pool)).first()
    return None if row is None else PastHold(*row)


def hold(
    tx: Tx,
    pool: str,
    sentence: str,
    now: datetime,
    *,
    until: datetime | None = None,
    by_operator: bool = True,
) -> None:
    """Stop a pool's launches until it is released, or until a time. A longer hold stays."""
    row = {"pool": pool, "sentence": sentence, "until": until, "held_at": now}
    tx.execute(_SET_HOLD, {**row, "by_operator": by_operator})


def release(tx: Tx, pool: str, *, by_operator: bool = True) -> bool:
    """Let a pool launch again. An operator releases every hold, a budget its own, which has no end."""
    held = delete(schema.pool_holds).where(_h.pool == pool, or_(literal(by_operator), _OF_BUDGET))
    return tx.execute(held).rowcount > 0


def resumed(tx: Tx, pool: str, now: datetime) -> None:
    """Record that an operator let a pool launch again: what failed before was mended."""
    tx.execute(_SET_RESUMED, {"name": pool, "resumed_at": now})
