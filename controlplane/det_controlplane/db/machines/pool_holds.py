"""Holds of pools that must not launch machines, by rows or by spent budgets, and the times at which operators
resumed pools.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, or_, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.money.budget import ends_at, spent_sentence
from det_controlplane.core.provision.model import Hold
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import budgets

_h = schema.pool_holds.c
_HOLD = insert(schema.pool_holds)
_SET_HOLD = _HOLD.on_conflict_do_update(
    index_elements=[_h.pool],
    set_={name: _HOLD.excluded[name] for name in ("sentence", "until", "held_at", "by_operator")},
    # An operator's word replaces any other; of the rest the one that lasts longer stays.
    where=or_(
        _HOLD.excluded.by_operator,
        ~_h.by_operator & or_(_h.until.is_(None), _h.until < _HOLD.excluded.until),
    ),
)
_RESUMED = insert(schema.pools)
_SET_RESUMED = _RESUMED.on_conflict_do_update(
    index_elements=[schema.pools.c.name], set_={"resumed_at": _RESUMED.excluded.resumed_at}
)


def in_force(now: datetime) -> ColumnElement[bool]:
    """Return the condition of rows that hold a pool now. Versions before this wrote rows of budgets, which do not."""
    return or_(_h.by_operator, _h.until > now)


def every(tx: Tx, now: datetime) -> dict[str, tuple[Hold, ...]]:
    """Return the pools that must not launch machines now, with all reasons."""
    holds: dict[str, tuple[Hold, ...]] = defaultdict(tuple)
    for r in tx.execute(select(_h.pool, _h.sentence, _h.until).where(in_force(now))).all():
        holds[r.pool] += (Hold(r.sentence, None if r.until is None else r.until.timestamp()),)
    for pool, budget in budgets.spent_of_pools(tx, now).items():
        end = ends_at(budget.period, now)
        until = None if end is None else end.timestamp()
        holds[pool] += (Hold(spent_sentence(budget), until, of_budget=True),)
    return holds


@dataclass(frozen=True, slots=True)
class PastHold:
    """Tell when a pool was last held, until when if that is known, and whether by an operator; it may be over."""

    held_at: datetime
    until: datetime | None
    by_operator: bool

    def lasts_at(self, time: datetime) -> bool:
        return self.by_operator or (self.until is not None and self.until > time)


def last(tx: Tx, pool: str) -> PastHold | None:
    row = tx.execute(select(_h.held_at, _h.until, _h.by_operator).where(_h.pool == pool)).first()
    return None if row is None else PastHold(*row)


def hold(tx: Tx, pool: str, sentence: str, now: datetime, *, until: datetime | None = None) -> None:
    """Stop a pool's launches until a time, or until an operator releases it. A longer hold stays."""
    row = {"pool": pool, "sentence": sentence, "until": until, "held_at": now}
    tx.execute(_SET_HOLD, {**row, "by_operator": until is None})


def release(tx: Tx, pool: str) -> bool:
    """Let a pool launch again, unless its budget is spent."""
    return tx.execute(delete(schema.pool_holds).where(_h.pool == pool)).rowcount > 0


def resumed(tx: Tx, pool: str, now: datetime) -> None:
    """Store that an operator resumed a pool. Earlier failures no longer count."""
    tx.execute(_SET_RESUMED, {"name": pool, "resumed_at": now})
