"""The identity of the cluster, its operators' message, and its built-in accounts at first start."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, exists, func, literal_column, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time
from det_controlplane.db.schema import (
    agents,
    cluster,
    cluster_message,
    outbox,
    pools,
    slots,
    users,
)

_BUILT_IN = (1, 2)  # the users `admin` and `determined`
_WITHOUT_PASSWORD = (
    users.c.id.in_(_BUILT_IN) & users.c.password_hash.is_(None) & users.c.remote.is_(False)
)
_LEFT_WAITING = select(
    cluster.c.ticking.is_(False)
    & or_(exists(select(1).where(pools.c.dirty)), exists(select(1).select_from(outbox)))
)


def _time(column: str) -> str:
    """Return a time as Determined writes it here, without the fraction of a whole second."""
    return f"regexp_replace({time(column)}, '[.]0+Z$', 'Z')"


_MESSAGE: Any = literal_column(
    f"json_build_object('message', message, 'startTime', {_time('starts_at')}, 'endTime', {_time('ends_at')},"
    f" 'createdTime', {_time('created_at')})"
)


@dataclass(frozen=True, slots=True)
class JoinedAgent:
    id: str
    pool: str
    runtime: str
    seen_at: float  # in seconds since the epoch
    slots: int


def answers(tx: Tx) -> None:
    """Raise DatabaseDown where the database does not answer."""
    tx.execute(select(1))


def takes_writes(tx: Tx) -> None:
    """Raise DatabaseDown where the database answers and cannot write, as with a full disk."""
    tx.execute(update(cluster).values(ticking=cluster.c.ticking))


def identity(tx: Tx) -> str:
    return str(tx.execute(select(cluster.c.cluster_id)).scalar())


def awaits_first_password(tx: Tx) -> bool:
    return tx.execute(select(users.c.id).where(_WITHOUT_PASSWORD)).first() is not None


def set_first_password(tx: Tx, password_hash: str) -> int:
    """Set the password of built-in accounts without a password. Return the number of these accounts."""
    statement = update(users).where(_WITHOUT_PASSWORD).values(password_hash=password_hash)
    return tx.execute(statement).rowcount


def joined_agents(tx: Tx) -> list[JoinedAgent]:
    query = (
        select(
            agents.c.id,
            agents.c.pool,
            agents.c.runtime,
            func.date_part("epoch", agents.c.last_seen_at),
            func.count(slots.c.slot_id),
        )
        .outerjoin_from(agents, slots, slots.c.agent_id == agents.c.id)
        .where(agents.c.state == AgentState.JOINED)
        .group_by(agents.c.id)
        .order_by(agents.c.id)
    )
    return [JoinedAgent(*row) for row in tx.execute(query)]


def message(tx: Tx, now: datetime, *, planned: bool) -> Any:
    """Return the message to be shown now as JSON, or also one that is planned."""
    ends = cluster_message.c.ends_at
    query = select(_MESSAGE).select_from(cluster_message).where(or_(ends.is_(None), ends > now))
    if not planned:
        query = query.where(cluster_message.c.starts_at <= now)
    return tx.execute(query).scalar()


def set_message(
    tx: Tx, text: str, starts_at: datetime, ends_at: datetime | None, now: datetime
) -> None:
    values = {"message": text, "starts_at": starts_at, "ends_at": ends_at, "created_at": now}
    new = insert(cluster_message).values(values)
    tx.execute(new.on_conflict_do_update(index_elements=["only_row"], set_=values))


def clear_message(tx: Tx) -> None:
    tx.execute(delete(cluster_message))


def is_ticking(tx: Tx) -> bool:
    """Return whether the schedules of a cloud call the control plane, as far as it knows."""
    return bool(tx.execute(select(cluster.c.ticking)).scalar_one())


def set_ticking(tx: Tx, on: bool) -> None:
    tx.execute(update(cluster).values(ticking=on))


def has_work_without_schedule(tx: Tx) -> bool:
    """Return whether something waits for a tick while no schedule starts one."""
    return bool(tx.execute(_LEFT_WAITING).scalar_one())


def claim_clean_up(tx: Tx, now: datetime, before: datetime) -> bool:
    """Claim the deletion of expired data, unless it was claimed since `before`."""
    due = or_(cluster.c.cleaned_at.is_(None), cluster.c.cleaned_at <= before)
    return tx.execute(update(cluster).where(due).values(cleaned_at=now)).rowcount > 0
