"""Mark pools that need a scheduling pass, and clear the marks that a pass has seen."""

from datetime import datetime

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx

_pools = schema.pools.c
_MARK = (
    insert(schema.pools)
    .values(name=bindparam("pool"))
    .on_conflict_do_update(index_elements=[_pools.name], set_={"marked": _pools.marked + 1})
)
_DIRTY = select(_pools.name).where(_pools.dirty).order_by(_pools.name)
_COUNT = select(_pools.marked).where(_pools.name == bindparam("pool"))
_ANSWER = (
    update(schema.pools)
    .where(_pools.name == bindparam("pool"))
    .values(
        answered=func.greatest(_pools.answered, bindparam("marks", type_=_pools.answered.type)),
        scheduled_at=bindparam("now"),
        schedule_at=bindparam("next_at", type_=_pools.schedule_at.type),
        provision_at=func.coalesce(
            bindparam("decide_at", type_=_pools.provision_at.type), _pools.provision_at
        ),
    )
)
_DUE = select(_pools.name).where(_pools.schedule_at <= bindparam("now")).order_by(_pools.name)


def mark(tx: Tx, pool: str) -> None:
    """Ask for a pass. Everybody writes to this row: as the last write it is locked only for the commit."""
    tx.execute(_MARK, {"pool": pool})


def dirty_pools(tx: Tx) -> list[str]:
    return list(tx.execute(_DIRTY).scalars())


def count(tx: Tx, pool: str) -> int:
    """Return how often the pool was marked: read before anything that a pass decides on."""
    return tx.execute(_COUNT, {"pool": pool}).scalar() or 0


def answer(
    tx: Tx,
    pool: str,
    marks: int,
    now: datetime,
    *,
    decide_at: datetime | None,
    next_at: datetime | None,
) -> None:
    """End a pass. The pool stays marked only if it was marked after the pass began.

    The time of the next decision about machines is stored too, because the process may die before it decides.
    `next_at` is the time of the next pass if the pool does not change."""
    times = {"now": now, "decide_at": decide_at, "next_at": next_at}
    tx.execute(_ANSWER, {"pool": pool, "marks": marks, **times})


def due_pools(tx: Tx, now: datetime) -> list[str]:
    """Return the pools that need a pass at this time although they did not change."""
    return list(tx.execute(_DUE, {"now": now}).scalars())
