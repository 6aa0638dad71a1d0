"""Reclaimed machines. Offers with frequent reclaims rank lower."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx

_i = schema.instances.c


def of_agent(tx: Tx, agent_id: str, now: datetime) -> None:
    """Record that the cloud reclaims the machine of an agent, unless the cluster was already terminating it."""
    is_terminating = _i.state == MachineState.TERMINATING
    _remember(tx, now, _i.agent_id == agent_id, _i.ended_at.is_(None), ~is_terminating)


def of_machine(tx: Tx, id: UUID, now: datetime) -> None:
    """Remember that the cloud took a machine back."""
    _remember(tx, now, _i.id == id)


def _remember(tx: Tx, now: datetime, *which: ColumnElement[bool]) -> None:
    columns = (_i.id, _i.provider, _i.region, _i.zone, _i.machine_type)
    query = select(*columns, bindparam("now", now)).where(*which)
    names = ["instance_id", "provider", "region", "zone", "machine_type", "noticed_at"]
    tx.execute(insert(schema.interruptions).from_select(names, query).on_conflict_do_nothing())


def since(tx: Tx, time: datetime) -> tuple[tuple[Scope, float], ...]:
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
