"""Rows of pools in the database, and the count of their changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.money.budget import BudgetScope
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import (
    budgets,
    cluster,
    pool_bindings,
    pool_holds,
    resource_pools,
    restricted_pools,
    users,
    warm_pools,
    workspaces,
)

_p, _c = resource_pools.c, cluster.c
REVISION = select(_c.pools_revision).scalar_subquery()
_EVERY = select(_p.name, _p.settings, _p.sealed, _p.leaving_since.is_not(None).label("is_leaving"))
_USE = text("""
    SELECT count(*) FILTER (WHERE state <> 'QUEUED') AS running, count(*) FILTER (WHERE state = 'QUEUED') AS queued
    FROM allocations WHERE pool = :pool AND state <> 'TERMINATED'
""")
_EXPERIMENTS = text("""
    SELECT count(*) FILTER (WHERE e.state <> 'PAUSED') AS active, count(*) FILTER (WHERE e.state = 'PAUSED') AS paused
    FROM experiments e JOIN jobs j ON j.id = e.job_id WHERE j.pool = :pool AND NOT e.unmanaged
        AND e.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR', 'DELETING', 'DELETE_FAILED')
""")


@dataclass(frozen=True, slots=True)
class PoolRow:
    name: str
    settings: dict[str, Any]
    sealed: str
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class Defaults:
    revision: int
    compute: str | None
    aux: str | None


@dataclass(frozen=True, slots=True)
class History:
    """The origin of a pool in the database."""

    adopted: bool
    created_at: datetime
    created_by: str | None
    changed_at: datetime
    changed_by: str | None
    leaving_since: datetime | None
    agents_to: str | None


@dataclass(frozen=True, slots=True)
class PoolWork:
    """The work of a pool: allocations, and experiments that have not ended."""

    running: int
    queued: int
    active: int
    paused: int

    @property
    def is_going_on(self) -> bool:
        return bool(self.running or self.queued or self.active)


def defaults(tx: Tx) -> Defaults:
    """Return the count of changes and the default pools. Read it before the rows, which are then as new at least."""
    columns = (_c.pools_revision, _c.default_compute_pool, _c.default_aux_pool)
    return Defaults(*tx.execute(select(*columns)).one())


def every(tx: Tx) -> list[PoolRow]:
    return [PoolRow(*row) for row in tx.execute(_EVERY.order_by(_p.created_at, _p.name))]


def locked(tx: Tx, name: str) -> PoolRow | None:
    """Return a pool that no other transaction changes or submits work to until this one ends."""
    row = tx.execute(_EVERY.where(_p.name == name).with_for_update()).first()
    return None if row is None else PoolRow(*row)


def held(tx: Tx, name: str) -> PoolRow | None:
    """Return a pool that no other transaction changes until this one ends. Several may hold it."""
    row = tx.execute(_EVERY.where(_p.name == name).with_for_update(read=True)).first()
    return None if row is None else PoolRow(*row)


def hold_open(tx: Tx, name: str) -> bool:
    """Return whether a pool of the database takes work, and keep it so until the transaction ends."""
    open_row = select(_p.name).where(_p.name == name, _p.leaving_since.is_(None))
    return tx.execute(open_row.with_for_update(read=True)).first() is not None


def taken_agents(tx: Tx, name: str) -> list[str]:
    """Return the pools that are being deleted and then leave their agents to this one."""
    leaving = select(_p.name).where(_p.agents_to == name, _p.leaving_since.is_not(None))
    return list(tx.execute(leaving.order_by(_p.name)).scalars())


def create(
    tx: Tx,
    name: str,
    settings: Mapping[str, Any],
    sealed: str,
    user_id: int,
    now: datetime,
    *,
    adopted: bool = False,
) -> bool:
    """Store a new pool. Return False if the database has one with this name."""
    values = {
        "name": name, "settings": settings, "sealed": sealed, "adopted": adopted,
        "created_at": now, "created_by": user_id, "changed_at": now, "changed_by": user_id,
    }  # fmt: skip
    row = insert(resource_pools).values(values).on_conflict_do_nothing(index_elements=["name"])
    return tx.execute(row).rowcount == 1


def change(
    tx: Tx, name: str, settings: Mapping[str, Any], sealed: str, user_id: int, now: datetime
) -> None:
    values = {"settings": settings, "sealed": sealed, "changed_at": now, "changed_by": user_id}
    tx.execute(update(resource_pools).where(_p.name == name).values(values))


def set_leaving(tx: Tx, name: str, since: datetime | None, agents_to: str | None) -> None:
    """Have a pool end with its work, or keep it."""
    row = update(resource_pools).where(_p.name == name)
    tx.execute(row.values(leaving_since=since, agents_to=agents_to))


def histories(tx: Tx) -> dict[str, History]:
    creator, changer = users.alias("creator"), users.alias("changer")
    query = (
        select(
            _p.name, _p.adopted, _p.created_at, creator.c.username, _p.changed_at,
            changer.c.username, _p.leaving_since, _p.agents_to,
        )
        .outerjoin_from(resource_pools, creator, creator.c.id == _p.created_by)
        .outerjoin(changer, changer.c.id == _p.changed_by)
    )  # fmt: skip
    return {row[0]: History(*row[1:]) for row in tx.execute(query)}


def count_change(tx: Tx) -> None:
    """Let every process read the pools again. The row is shared, so this is a transaction's last write but the marks."""
    tx.execute(update(cluster).values(pools_revision=_c.pools_revision + 1))


def set_defaults(tx: Tx, *, compute: str | None = None, aux: str | None = None) -> None:
    """Set default pools; None keeps one."""
    names = {"default_compute_pool": compute, "default_aux_pool": aux}
    tx.execute(update(cluster).values({k: v for k, v in names.items() if v is not None}))


def work_of(tx: Tx, pool: str) -> PoolWork:
    runs = tx.execute(_USE, {"pool": pool}).one()
    stored = tx.execute(_EXPERIMENTS, {"pool": pool}).one()
    return PoolWork(runs.running, runs.queued, stored.active, stored.paused)


def workspaces_defaulting_to(tx: Tx, pool: str) -> list[str]:
    """Return the names of workspaces that have the pool as a default."""
    w = workspaces.c
    of_pool = or_(w.default_compute_pool == pool, w.default_aux_pool == pool)
    return list(tx.execute(select(w.name).where(of_pool).order_by(w.name)).scalars())


def remove(tx: Tx, name: str) -> None:
    """Delete a pool with its bindings, its access list, its budget and its hold."""
    tx.execute(delete(pool_bindings).where(pool_bindings.c.pool == name))
    tx.execute(delete(restricted_pools).where(restricted_pools.c.pool == name))
    of_pool = (budgets.c.scope == BudgetScope.POOL) & (budgets.c.scope_id == name)
    tx.execute(delete(budgets).where(of_pool))
    tx.execute(delete(pool_holds).where(pool_holds.c.pool == name))
    tx.execute(delete(warm_pools).where(warm_pools.c.pool == name))
    forget_row(tx, name)


def forget_row(tx: Tx, name: str) -> None:
    """Delete the row of a pool only, because the configuration has the pool again."""
    tx.execute(delete(resource_pools).where(_p.name == name))
