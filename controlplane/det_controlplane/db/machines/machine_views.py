"""Rented machines, and pools with their offers and holds, as JSON."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Float, bindparam, case, cast, func, null, or_, select

from det_controlplane.core.lifecycle.allocation import AllocationState
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.provision.cooldown import ENDLESS_S
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection
from det_controlplane.db.engine.views import moment, shown
from det_controlplane.db.machines import pool_holds as pool_rows
from det_controlplane.db.schema import allocations, cooldowns, instances, pool_holds
from det_controlplane.db.schema.base import Time

_i, _c, _h, _a = instances.c, cooldowns.c, pool_holds.c, allocations.c
_NOW = bindparam("now", type_=Time)
_HOURS = func.extract("epoch", func.coalesce(_i.ended_at, _NOW) - _i.launched_at) / 3600
_COST = case((_i.launched_at.is_(None), 0), else_=_i.price_usd_hour * _HOURS)


def _machine_json(*more: Column[Any]) -> ColumnElement[Any]:
    return shown(
        _i.id, _i.pool, _i.state, _i.provider, _i.region, _i.zone, _i.machine_type, _i.capacity, _i.slots,
        _i.purpose, _i.cloud_id, _i.agent_id, _i.reason, _i.placement, *more,
        priceUsdHour=cast(_i.price_usd_hour, Float),
        costUsd=cast(func.round(_COST, 6), Float),
        requestedAt=moment(_i.requested_at), launchedAt=moment(_i.launched_at),
        bootedAt=moment(_i.booted_at), registeredAt=moment(_i.registered_at), imageBuiltAt=moment(_i.image_built_at), drainingSince=moment(_i.draining_since),
        terminatingSince=moment(_i.terminating_since), endedAt=moment(_i.ended_at),
    )  # fmt: skip


_LISTED = Collection(
    "instances",
    select(_machine_json()),
    orders={"SORT_BY_START_TIME": _i.requested_at, "SORT_BY_ID": _i.id},
    key=_i.id,
    filters={
        "pool": _i.pool == bindparam("pool"),
        "live": _i.state.not_in([MachineState.GONE, MachineState.FAILED]),
        "ended_after": or_(
            _i.ended_at.is_(None), _i.ended_at >= bindparam("ended_after", type_=Time)
        ),
    },
)


def listed(
    db: Database, page: Page, sort: Sort, filters: dict[str, Any], now: datetime
) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, filters, now=now)


def one(tx: Tx, id: UUID, now: datetime) -> dict[str, Any] | None:
    """Return a machine, also with the console that listings leave out."""
    row = select(_machine_json(_i.console)).where(_i.id == id)
    machine: dict[str, Any] | None = tx.execute(row, {"now": now}).scalar()
    return machine


def newest_image(tx: Tx, pool: str, since: datetime) -> datetime | None:
    """Return when the image of the pool's newest joined machine was made, or None if that is unknown."""
    joined = (_i.pool == pool, _i.registered_at.is_not(None), _i.requested_at > since)
    newest = select(_i.image_built_at).where(*joined).order_by(_i.registered_at.desc()).limit(1)
    built_at: datetime | None = tx.execute(newest).scalar()
    return built_at


def cooldowns_now(tx: Tx, now: datetime) -> list[dict[str, Any]]:
    """Return the cooldowns in effect, the latest end first. A cooldown without an end has no `until`."""
    until = case((_c.until > now + timedelta(seconds=ENDLESS_S), null()), else_=moment(_c.until))
    row = shown(
        _c.provider, _c.region, _c.zone, _c.machine_type, _c.capacity, _c.pool, _c.hint, _c.kind, _c.sentence, _c.failures,
        until=until, refusedAt=moment(_c.refused_at),
    )  # fmt: skip
    query = select(row).where(_c.until > now).order_by(_c.until.desc())
    return list(tx.execute(query).scalars())


def holds(tx: Tx, now: datetime) -> dict[str, dict[str, Any]]:
    """Return the reasons why pools launch no machines now, by pool. Spent budgets are not included."""
    row = shown(_h.sentence, _h.by_operator, until=moment(_h.until), heldAt=moment(_h.held_at))
    query = select(_h.pool, row.label("hold")).where(pool_rows.in_force(now))
    return {r.pool: r.hold for r in tx.execute(query).all()}


def waiting(tx: Tx, pool: str) -> list[dict[str, Any]]:
    """Return why allocations of a pool have no machine, each reason once, the most frequent first."""
    reason = (_a.machine_code, _a.machine_reason)
    count, next_try = func.count(), func.min(_a.machine_next_try)
    row = shown(
        code=_a.machine_code, sentence=_a.machine_reason, nextTry=moment(next_try), allocations=count,
        slots=func.sum(_a.slots),
    )  # fmt: skip
    queued = (_a.pool == pool, _a.state == AllocationState.QUEUED, _a.machine_reason.is_not(None))
    query = select(row).where(*queued).group_by(*reason).order_by(count.desc(), _a.machine_reason)
    return list(tx.execute(query).scalars())
