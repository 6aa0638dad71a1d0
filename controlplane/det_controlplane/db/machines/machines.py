"""Rows of rented machines (the table `instances`), from the intent to rent one to its end."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.machine import MachineState, before
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.core.provision.sightings import Row
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx

_i = schema.instances.c
_OF_OFFER = (
    "provider", "region", "zone", "machine_type", "capacity", "slots", "price_usd_hour", "section",
)  # fmt: skip
_LIVE = _i.state.not_in([MachineState.GONE, MachineState.FAILED])
# The newest machines of a pool of which it is known whether their agents joined, since an operator resumed it.
_NO_SHOWS = text("""
    SELECT registered_at FROM instances WHERE pool = :pool AND (registered_at IS NOT NULL OR no_show)
        AND requested_at >= coalesce((SELECT resumed_at FROM pools WHERE name = :pool), '-infinity')
    ORDER BY requested_at DESC, id LIMIT :newest
""")
# One process calls the cloud for a row; if it dies, another one repeats the call with the same token.
_CLAIM = text("""
    UPDATE instances SET claimed_until = cast(:now AS timestamptz) + make_interval(secs => :claim_s)
    WHERE id = (SELECT id FROM instances WHERE state = 'REQUESTED' AND coalesce(claimed_until, :now) <= :now
                AND coalesce(not_before, :now) <= :now ORDER BY requested_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, pool, provider, section, attempt, offers, requested_at, purpose
""")
_REQUESTS = select(
    _i.id, _i.pool, _i.provider, _i.section, _i.attempt, _i.offers, _i.requested_at, _i.purpose
)
_ORDERED_ENDS = (
    select(
        _i.id,
        _i.provider,
        _i.region,
        _i.zone,
        _i.cloud_id,
        _i.section,
        _i.pool,
        and_(_i.registered_at.is_(None), _i.console.is_(None)).label("lacks_console"),
    )
    .where(_i.state == MachineState.TERMINATING, _i.cloud_id.is_not(None))
    .order_by(_i.id)
)
_NEXT_CALL = select(
    func.min(func.coalesce(func.greatest(_i.claimed_until, _i.not_before), _i.requested_at))
).where(_i.state == MachineState.REQUESTED)


def request(
    tx: Tx, id: UUID, pool: str, offers: Sequence[Offer], purpose: str, now: datetime
) -> None:
    """Store the intent to rent one of some offers, under the name of the first."""
    best = offers[0]
    tx.execute(
        insert(schema.instances).inline(),
        {
            "id": id, "pool": pool, "state": MachineState.REQUESTED,
            # Dump the values here, because the engine's JSON would write other types as text.
            "offers": [asdict(offer) for offer in offers], "purpose": purpose or None,
            "requested_at": now, **_columns(best),
        },
    )  # fmt: skip


def _columns(offer: Offer) -> dict[str, Any]:
    return {name: getattr(offer, name) for name in _OF_OFFER}


def _offer(row: dict[str, Any]) -> Offer:
    cap = row["max_price_usd_hour"]
    values = {
        "price_usd_hour": Decimal(row["price_usd_hour"]),
        "max_price_usd_hour": None if cap is None else Decimal(cap),
        "capacity": Capacity(row["capacity"]),
    }
    return Offer(**{**row, **values})


@dataclass(frozen=True, slots=True)
class Requested:
    """A row with a launch that this process must request from the cloud."""

    id: UUID
    pool: str
    provider: str
    section: int
    attempt: int
    offers: tuple[Offer, ...]
    requested_at: datetime
    purpose: str = ""  # the allocation that it is for


def claim_request(tx: Tx, now: datetime, claim: timedelta) -> Requested | None:
    row = tx.execute(_CLAIM, {"now": now, "claim_s": claim.total_seconds()}).first()
    return None if row is None else _read_requested(row)


def requests(tx: Tx, ids: Collection[UUID]) -> list[Requested]:
    """Return the launches that some rows ask for."""
    query = _REQUESTS.where(_i.id.in_(ids)).order_by(_i.id)
    return [_read_requested(row) for row in tx.execute(query).all()] if ids else []


def never_joined(tx: Tx, ids: Collection[UUID]) -> list[Requested]:
    """Return which of some machines never had an agent that joined. A cloud may list a machine before it finds room for it."""
    rows = _REQUESTS.where(_i.id.in_(ids), _i.registered_at.is_(None), _i.cloud_id.is_not(None))
    return [_read_requested(row) for row in tx.execute(rows).all()] if ids else []


def _read_requested(row: Any) -> Requested:
    offers = tuple(_offer(o) for o in row.offers)
    return Requested(
        row.id, row.pool, row.provider, row.section, row.attempt, offers, row.requested_at,
        row.purpose or "",
    )  # fmt: skip


def launched(
    tx: Tx, id: UUID, offer: Offer, cloud_id: str, now: datetime, placement: str | None = None
) -> bool:
    """Record that a cloud gave the machine. It may be on its way out already: then only its name there is kept."""
    values = {
        "cloud_id": cloud_id, "claimed_until": None, "launched_at": now, "placement": placement,
        **_columns(offer),
    }  # fmt: skip
    becomes = _move(tx, [id], MachineState.LAUNCHED, {**values, "reason": None})
    if not becomes:
        tx.execute(update(schema.instances).where(_i.id == id, _LIVE).values(values))
    return bool(becomes)


def refused(tx: Tx, id: UUID, sentence: str, now: datetime) -> None:
    """Record that no offer of the row gave a machine."""
    values = {"reason": sentence, "ended_at": now, "claimed_until": None}
    if not _move(tx, [id], MachineState.FAILED, values):
        _move(tx, [id], MachineState.GONE, values)


def retry_request(tx: Tx, id: UUID, at: datetime, sentence: str) -> bool:
    """Have the same attempt repeated, as the cloud's answer was lost. Return whether the reason is new."""
    row = update(schema.instances).where(_i.id == id)
    tx.execute(row.values(claimed_until=None, not_before=at))
    is_new = row.where(_i.state == MachineState.REQUESTED, _i.reason.is_distinct_from(sentence))
    return tx.execute(is_new.values(reason=sentence)).rowcount > 0


def cancel(tx: Tx, id: UUID, reason: str, now: datetime) -> bool:
    """Ask for a machine no more that no cloud has answered about. One that comes all the same is ended."""
    row = update(schema.instances).where(_i.id == id, _i.state == MachineState.REQUESTED)
    ending = {"state": MachineState.TERMINATING, "terminating_since": now, "reason": reason}
    return tx.execute(row.values(claimed_until=None, **ending)).rowcount > 0


def drain(tx: Tx, id: UUID, reason: str, now: datetime) -> str | None:
    """Stop placing work on the machine. Return its agent if the state changed."""
    values = {"draining_since": now, "reason": reason}
    return _agent_of(tx, _move(tx, [id], MachineState.DRAINING, values))


def terminate(
    tx: Tx,
    id: UUID,
    reason: str,
    now: datetime,
    *,
    after_drain: bool = False,
    no_show: bool = False,
) -> str | None:
    """Order the end of a machine; return its agent if that is new. The reason of a drain is kept."""
    earlier = func.coalesce(literal(": ") + _i.reason, "")
    values = {
        "terminating_since": now,
        "reason": literal(reason) + earlier if after_drain else reason,
        "no_show": and_(literal(no_show), _i.registered_at.is_(None)),
    }
    return _agent_of(tx, _move(tx, [id], MachineState.TERMINATING, values))


def _agent_of(tx: Tx, ids: Collection[UUID]) -> str | None:
    return next((row.agent_id for row in pools_of(tx, ids)), None)


@dataclass(frozen=True, slots=True)
class PoolAgent:
    pool: str
    agent_id: str | None


def end(tx: Tx, ids: Collection[UUID], now: datetime) -> list[PoolAgent]:
    """Record that clouds no longer have machines; returns where they were and their agents."""
    return pools_of(tx, _move(tx, ids, MachineState.GONE, {"ended_at": now}))


def pools_of(tx: Tx, ids: Collection[UUID]) -> list[PoolAgent]:
    rows = tx.execute(select(_i.pool, _i.agent_id).where(_i.id.in_(ids))).all() if ids else ()
    return [PoolAgent(*r) for r in rows]


def _move(tx: Tx, ids: Collection[UUID], state: MachineState, values: dict[str, Any]) -> list[UUID]:
    """Move rows to a state, where the table of transitions allows it."""
    statement = (
        update(schema.instances)
        .where(_i.id.in_(ids), _i.state.in_(before(state)))
        .values(state=state, **values)
        .returning(_i.id)
    )
    return list(tx.execute(statement).scalars())


@dataclass(frozen=True, slots=True)
class OrderedEnd:
    """A machine with an ordered termination."""

    id: UUID
    provider: str
    region: str
    zone: str
    cloud_id: str
    section: int
    pool: str
    lacks_console: bool  # it never joined, and its console output is not stored


def ordered_ends(tx: Tx) -> list[OrderedEnd]:
    return [OrderedEnd(**r._mapping) for r in tx.execute(_ORDERED_ENDS).all()]


def set_console(tx: Tx, id: UUID, lines: str) -> None:
    tx.execute(update(schema.instances).where(_i.id == id).values(console=lines))


def live_rows(tx: Tx, provider: str, region: str, now: datetime) -> list[Row]:
    """Return the rows with which a cloud's list of the machines of a region is compared."""
    under_way = func.coalesce(_i.claimed_until > now, False).label("under_way")
    agents = schema.agents.c
    polled_at = select(agents.last_seen_at).where(agents.id == _i.agent_id).scalar_subquery()
    sign = func.greatest(_i.seen_at, _i.launched_at, _i.not_before, _i.requested_at, polled_at)
    was_listed = _i.seen_at.is_not(None).label("was_listed")
    columns = (
        _i.id,
        _i.state,
        _i.cloud_id,
        _i.unseen,
        under_way,
        sign.label("last_sign"),
        was_listed,
    )
    query = select(*columns).where(_LIVE, _i.provider == provider, _i.region == region)
    return [
        Row(
            r.id,
            r.state,
            r.cloud_id,
            r.unseen,
            r.under_way,
            (now - r.last_sign).total_seconds(),
            r.was_listed,
        )
        for r in tx.execute(query).all()
    ]


def seen(tx: Tx, ids: Collection[UUID], stopped: Collection[UUID], now: datetime) -> None:
    if not ids:
        return
    row = update(schema.instances).where(_i.id.in_(ids))
    tx.execute(row.values(seen_at=now, unseen=0, stopped=_i.id.in_(stopped)))


def unseen(tx: Tx, ids: Collection[UUID]) -> None:
    if ids:
        tx.execute(update(schema.instances).where(_i.id.in_(ids)).values(unseen=_i.unseen + 1))


def adopt(
    tx: Tx, id: UUID, offer: Offer, cloud_id: str, now: datetime, placement: str | None = None
) -> None:
    """Store a machine that was launched although the cloud's answer was lost."""
    statement = update(schema.instances).where(_i.id == id, _i.cloud_id.is_(None))
    launched_at = func.coalesce(_i.launched_at, now)
    placements = {} if placement is None else {"placement": placement}
    values = {"cloud_id": cloud_id, "launched_at": launched_at, **placements, **_columns(offer)}
    tx.execute(statement.values(values))
    _move(tx, [id], MachineState.LAUNCHED, {"claimed_until": None, "reason": None})


def places(tx: Tx) -> set[tuple[str, str]]:
    """Return provider and region of all live machines."""
    rows = tx.execute(select(_i.provider, _i.region).where(_LIVE).distinct()).all()
    return {(r.provider, r.region) for r in rows}


def cloud_ids(tx: Tx, provider: str, region: str) -> tuple[str, ...]:
    """Return the ids of the live machines of a region."""
    here = (_LIVE, _i.provider == provider, _i.region == region, _i.cloud_id.is_not(None))
    return tuple(tx.execute(select(_i.cloud_id).where(*here).order_by(_i.cloud_id)).scalars())


def accept_proof(tx: Tx, proof_hash: bytes, now: datetime, keep: timedelta) -> bool:
    """Remember a proof of identity; returns False for one that was used before."""
    tx.execute(delete(schema.join_proofs).where(schema.join_proofs.c.expires_at < now))
    row = {"proof_hash": proof_hash, "expires_at": now + keep}
    new = insert(schema.join_proofs).on_conflict_do_nothing().inline()
    return tx.execute(new, row).rowcount > 0


def register(
    tx: Tx,
    provider: str,
    cloud_id: str,
    agent_id: str,
    booted_at: datetime | None,
    image_built_at: datetime | None,
    now: datetime,
) -> str | None:
    """Assign an agent to a launched machine that has not ended. Return its pool.

    The same agent may join again after a restart, also while its machine drains, because its work has to store
    checkpoints. Another agent is refused."""
    state = literal(MachineState.REGISTERED, _i.state.type)
    booted = literal(booted_at, _i.booted_at.type)
    statement = (
        update(schema.instances)
        .where(_is_awaited(provider, cloud_id, agent_id))
        .values(
            state=case((_i.state == MachineState.DRAINING, _i.state), else_=state),
            agent_id=agent_id,
            # A later boot of the same machine does not belong to its start.
            booted_at=case((_i.registered_at.is_(None), booted), else_=_i.booted_at),
            image_built_at=image_built_at,
            registered_at=func.coalesce(_i.registered_at, now),
        )
        .returning(_i.pool)
    )
    row = tx.execute(statement).first()
    return None if row is None else str(row.pool)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A machine without an earlier join of its agent."""

    pool: str
    section: int
    machine_type: str
    slots: int


def newcomer(tx: Tx, provider: str, cloud_id: str) -> Newcomer | None:
    """Return the machine, if it was launched and no agent has joined from it."""
    columns = select(_i.pool, _i.section, _i.machine_type, _i.slots)
    mine = (_i.provider == provider, _i.cloud_id == cloud_id)
    row = tx.execute(columns.where(*mine, _i.state == MachineState.LAUNCHED)).first()
    return None if row is None else Newcomer(*row)


def is_awaited(tx: Tx, provider: str, cloud_id: str, agent_id: str) -> bool:
    """Tell whether the agent may register with the machine, if it is on it."""
    return bool(
        tx.execute(select(exists().where(_is_awaited(provider, cloud_id, agent_id)))).scalar()
    )


def _is_awaited(provider: str, cloud_id: str, agent_id: str) -> ColumnElement[bool]:
    mine = or_(_i.agent_id.is_(None), _i.agent_id == agent_id)
    states = [MachineState.LAUNCHED, MachineState.REGISTERED, MachineState.DRAINING]
    return and_(_i.provider == provider, _i.cloud_id == cloud_id, _i.state.in_(states), mine)


def record_unordered_end(tx: Tx, id: UUID, reason: str, *, no_show: bool) -> str | None:
    """Store why a machine ended although it never joined and its end was not ordered. Return its pool."""
    statement = update(schema.instances).where(
        _i.id == id,
        _i.state.in_((MachineState.LAUNCHED, MachineState.GONE)),
        _i.registered_at.is_(None),
        _i.reason.is_(None),
    )
    values = {"reason": reason, "no_show": no_show}
    return tx.execute(statement.values(values).returning(_i.pool)).scalar()


def no_shows(tx: Tx, pool: str, newest: int) -> int:
    """Return the number of consecutive newest machines of a pool that ended before they joined, by their own fault."""
    join_times = tx.execute(_NO_SHOWS, {"pool": pool, "newest": newest}).scalars()
    return sum(1 for _ in takewhile(lambda at: at is None, join_times))


def next_call(tx: Tx) -> datetime | None:
    """Return when a cloud has to be called for the next requested machine."""
    return tx.execute(_NEXT_CALL).scalar()


def any_live(tx: Tx, *states: MachineState) -> bool:
    """Return whether machines exist, in one of some states if these are given."""
    condition = _i.state.in_(states) if states else _LIVE
    return bool(tx.execute(select(select(_i.id).where(condition).exists())).scalar())


def pools_with_machines(tx: Tx) -> dict[str, bool]:
    """Return the pools with machines, including pools of earlier configurations, and whether some machines are
    staying."""
    states = (MachineState.DRAINING, MachineState.TERMINATING)
    stays = func.bool_or(_i.state.not_in(states))
    return {r.pool: r[1] for r in tx.execute(select(_i.pool, stays).where(_LIVE).group_by(_i.pool))}


def in_states(tx: Tx, pool: str, *states: MachineState) -> list[UUID]:
    """Return the machines of a pool in some states, the oldest first."""
    rows = select(_i.id).where(_i.pool == pool, _i.state.in_(states))
    return list(tx.execute(rows.order_by(_i.requested_at, _i.id)).scalars())


def any_of(tx: Tx, pool: str) -> bool:
    """Return whether a pool ever rented."""
    return bool(tx.execute(select(select(_i.id).where(_i.pool == pool).exists())).scalar())
