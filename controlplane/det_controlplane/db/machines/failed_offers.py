"""Rows about offers of machines that failed: clouds refused them, or took their machines back."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.machine import MachineState
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


_i = schema.instances.c


def stored_cooldowns(tx: Tx) -> tuple[Cooldown, ...]:
    """Return all stored refusals, including expired ones, because failures are counted."""
    rows = tx.execute(select(schema.cooldowns)).all()
    return tuple(
        Cooldown(
            Scope(r.provider, r.region, r.zone, r.machine_type, r.capacity),
            r.kind, r.until.timestamp(), r.sentence, r.failures, r.pool, tuple(r.hint),
        )
        for r in rows
    )  # fmt: skip


def store_cooldowns(tx: Tx, cooldowns: Sequence[Cooldown], now: datetime) -> None:
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


def forget_cooldowns(tx: Tx, cooldowns: Collection[Cooldown]) -> None:
    """Delete refusals that count no longer."""
    for cooldown in sorted(cooldowns, key=lambda c: (c.scope, c.pool)):
        key = {**cooldown.scope._asdict(), "pool": cooldown.pool}
        tx.execute(delete(schema.cooldowns).where(*(_c[k] == v for k, v in key.items())))


def record_reclaimed_agent(tx: Tx, agent_id: str, now: datetime) -> None:
    """Record that the cloud reclaims the machine of an agent, unless the cluster was already terminating it."""
    is_terminating = _i.state == MachineState.TERMINATING
    _record_reclaimed(tx, now, _i.agent_id == agent_id, _i.ended_at.is_(None), ~is_terminating)


def record_reclaimed_machine(tx: Tx, id: UUID, now: datetime) -> None:
    """Remember that the cloud took a machine back."""
    _record_reclaimed(tx, now, _i.id == id)


def _record_reclaimed(tx: Tx, now: datetime, *which: ColumnElement[bool]) -> None:
    columns = (_i.id, _i.provider, _i.region, _i.zone, _i.machine_type)
    query = select(*columns, bindparam("now", now)).where(*which)
    names = ["instance_id", "provider", "region", "zone", "machine_type", "noticed_at"]
    tx.execute(insert(schema.interruptions).from_select(names, query).on_conflict_do_nothing())


def reclaimed_since(tx: Tx, time: datetime) -> tuple[tuple[Scope, float], ...]:
    n = schema.interruptions.c
    rows = tx.execute(
        select(n.provider, n.region, n.zone, n.machine_type, n.noticed_at).where(
            n.noticed_at > time
        )
    ).all()
    return tuple(
        (Scope(r.provider, r.region, r.zone, r.machine_type), r.noticed_at.timestamp())
        for r in rows
    )
