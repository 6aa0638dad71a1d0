"""Rows of the machine types and prices that clouds reported."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import delete, insert, select, text, update

from det_controlplane.core.provision.offers import Scope
from det_controlplane.core.provision.prices import MarketKnowledge, Quote, TypeZones
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import market_prices, market_reads, market_types

_p, _r, _t = market_prices.c, market_reads.c, market_types.c
_CLAIM = text("""
    INSERT INTO market_reads (provider, region, due_at) VALUES (:provider, :region, :until)
    ON CONFLICT (provider, region) DO UPDATE SET due_at = excluded.due_at WHERE market_reads.due_at <= :now
    RETURNING provider
""")


class NewPrice(NamedTuple):
    zone: str
    machine_type: str
    capacity: str
    usd_hour: Decimal
    since: datetime | None


def known(tx: Tx) -> MarketKnowledge:
    """Return the latest answers of the clouds."""
    prices = tx.execute(select(market_prices)).all()
    types = tx.execute(select(market_types)).all()
    reads = tx.execute(select(_r.provider, _r.region, _r.due_at)).all()
    return MarketKnowledge(
        prices={
            Scope(p.provider, p.region, p.zone, p.machine_type, p.capacity.value): Quote(
                p.price_usd_hour,
                p.read_at.timestamp(),
                None if p.since is None else p.since.timestamp(),
            )
            for p in prices
        },
        types={
            (t.provider, t.region, t.machine_type): TypeZones(tuple(t.zones), t.slots)
            for t in types
        },
        due={(r.provider, r.region): r.due_at.timestamp() for r in reads},
    )


def claim(tx: Tx, provider: str, region: str, now: datetime, until: datetime) -> bool:
    """Claim the due reading of a region. If it fails, it is due again at `until`."""
    values = {"provider": provider, "region": region, "now": now, "until": until}
    return tx.execute(_CLAIM, values).first() is not None


def failed(tx: Tx, provider: str, region: str, problem: str) -> None:
    """Store why a region could not be read. Its last answer stays."""
    row = update(market_reads).where(_r.provider == provider, _r.region == region)
    tx.execute(row.values(problem=problem))


def store(
    tx: Tx,
    provider: str,
    region: str,
    prices: Sequence[NewPrice],
    types: Mapping[str, TypeZones],
    problem: str,
    now: datetime,
    due_at: datetime,
) -> None:
    """Store an answer. Missing parts keep their stored values."""
    place: dict[str, Any] = {"provider": provider, "region": region}
    statement = update(market_reads).where(_r.provider == provider, _r.region == region)
    tx.execute(statement.values(read_at=now, due_at=due_at, problem=problem))
    for price in prices:
        tx.execute(
            delete(market_prices).where(
                _p.provider == provider,
                _p.region == region,
                _p.machine_type == price.machine_type,
                _p.capacity == price.capacity,
                _p.read_at < now,
            )
        )
    for price in prices:
        row = {
            **place, "zone": price.zone, "machine_type": price.machine_type, "capacity": price.capacity,
            "price_usd_hour": price.usd_hour, "since": price.since, "read_at": now,
        }  # fmt: skip
        tx.execute(insert(market_prices), row)
    if types:
        tx.execute(delete(market_types).where(_t.provider == provider, _t.region == region))
    for name, type_ in types.items():
        row = {
            **place,
            "machine_type": name,
            "zones": list(type_.zones),
            "slots": type_.slots,
        }
        tx.execute(insert(market_types), row)


def problems(tx: Tx) -> dict[tuple[str, str], str]:
    """Return why the last reading of regions did not give all prices."""
    query = select(_r.provider, _r.region, _r.problem).where(_r.problem != "")
    return {(r.provider, r.region): r.problem for r in tx.execute(query).all()}
