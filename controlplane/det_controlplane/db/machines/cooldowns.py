"""Rows of offers that clouds refused, with the time until which they are left alone."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.provision.model import Cooldown
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx

_c = schema.cooldowns.c
# An offer that is invalid stays so until the configuration changes, or an operator resumes its pool.
_LONGEST = timedelta(days=365)
_REFUSE = insert(schema.cooldowns)
_SET_COOLDOWN = _REFUSE.on_conflict_do_update(
    index_elements=[_c.provider, _c.region, _c.zone, _c.machine_type, _c.capacity, _c.pool],
    set_={
        name: _REFUSE.excluded[name]
        for name in ("kind", "until", "sentence", "failures", "refused_at", "hint")
    },
)


def every(tx: Tx) -> tuple[Cooldown, ...]:
    """Return all stored refusals, including expired ones, because failures are counted."""
    rows = tx.execute(select(schema.cooldowns)).all()
    return tuple(
        Cooldown(
            Scope(r.provider, r.region, r.zone, r.machine_type, r.capacity),
            r.kind, r.until.timestamp(), r.sentence, r.failures, r.pool, tuple(r.hint),
        )
        for r in rows
    )  # fmt: skip


def put(tx: Tx, cooldowns: Sequence[Cooldown], now: datetime) -> None:
    for cooldown in sorted(cooldowns, key=lambda c: (c.scope, c.pool)):
        until = now + timedelta(
            seconds=min(cooldown.until - now.timestamp(), _LONGEST.total_seconds())
        )
        row = {
            **cooldown.scope._asdict(), "kind": cooldown.kind, "until": until,
            "sentence": cooldown.sentence, "failures": cooldown.failures, "refused_at": now,
            "pool": cooldown.pool, "hint": list(cooldown.hint),
        }  # fmt: skip
        tx.execute(_SET_COOLDOWN, row)


def forget(tx: Tx, cooldowns: Collection[Cooldown]) -> None:
    """Delete refusals that count no longer."""
    for cooldown in sorted(cooldowns, key=lambda c: (c.scope, c.pool)):
        key = {**cooldown.scope._asdict(), "pool": cooldown.pool}
        tx.execute(delete(schema.cooldowns).where(*(_c[k] == v for k, v in key.items())))
