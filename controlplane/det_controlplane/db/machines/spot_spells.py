"""Rows of the spells in which spot offers are available."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.core.provision.spot_history import SpotSpell
from det_controlplane.core.provision.spot_spells import EndCounts
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx

_s = schema.spot_spells.c
_KEY = ("provider", "region", "zone", "machine_type")
_INSERT = insert(schema.spot_spells)
_STORE = _INSERT.on_conflict_do_update(
    index_elements=[_s[name] for name in _KEY],
    set_={column.name: _INSERT.excluded[column.name] for column in _s if column.name not in _KEY},
)
# Offers that were not observed for so long are forgotten.
_MEMORY = timedelta(days=42)


def every(tx: Tx) -> dict[Scope, SpotSpell]:
    """Return the spells by the scopes of their offers."""
    rows = tx.execute(select(schema.spot_spells))
    return {
        Scope(r.provider, r.region, r.zone, r.machine_type, Capacity.SPOT.value): _spell(r)
        for r in rows
    }


def store(tx: Tx, spells: Mapping[Scope, SpotSpell]) -> None:
    for scope, spell in sorted(spells.items(), key=lambda item: item[0]):
        row = {
            **dict(zip(_KEY, scope, strict=False)), "is_available": spell.is_available,
            "since": _time(spell.since), "observed_at": _time(spell.observed_at),
            "losses": spell.available.seen, "expected_losses": spell.available.expected,
            "returns": spell.unavailable.seen, "expected_returns": spell.unavailable.expected,
        }  # fmt: skip
        tx.execute(_STORE, row)


def forget_old(tx: Tx, now: datetime) -> None:
    tx.execute(delete(schema.spot_spells).where(_s.observed_at < now - _MEMORY))


def _spell(r: Any) -> SpotSpell:
    return SpotSpell(
        r.is_available, r.since.timestamp(), r.observed_at.timestamp(),
        EndCounts(r.losses, r.expected_losses), EndCounts(r.returns, r.expected_returns),
    )  # fmt: skip


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
