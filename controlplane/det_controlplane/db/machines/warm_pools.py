"""Rows of pools that choose the number of their warm machines."""

from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.provision.model import WarmDecision
from det_controlplane.core.provision.warm import StartRate, WarmHistory, WarmLedger
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import deadlines

_MEMORY = timedelta(days=28)
# Starts are measured again after so long.
_FRESH = timedelta(hours=1)
# At least so many days count, so that the first days of a pool are no rule for its months.
_LEAST_WEEKDAYS, _LEAST_WEEKEND_DAYS = 5, 2
_w = schema.warm_pools.c
# A job that queues several allocations in an hour counts once: one warm machine starts its first allocation.
_STARTS = text("""
    WITH starts AS (
        SELECT DISTINCT a.job_id, date_trunc('hour', a.requested_at AT TIME ZONE 'UTC') AS hour, a.slots
        FROM allocations a
        WHERE a.pool = :pool AND a.assigned_at > :since AND a.requested_at > :since AND a.slots > 0),
    days AS (
        SELECT count(*) FILTER (WHERE extract(isodow FROM day) < 6) AS weekdays,
               count(*) FILTER (WHERE extract(isodow FROM day) >= 6) AS weekend_days
        FROM generate_series((SELECT min(hour)::date FROM starts), (cast(:now AS timestamptz) AT TIME ZONE 'UTC')::date,
            interval '1 day') day)
    SELECT extract(isodow FROM s.hour) >= 6 AS is_weekend, extract(hour FROM s.hour)::integer AS hour, s.slots,
        count(*)::double precision / CASE WHEN extract(isodow FROM s.hour) >= 6
            THEN greatest(d.weekend_days, :least_weekend_days) ELSE greatest(d.weekdays, :least_weekdays) END AS per_hour
    FROM starts s CROSS JOIN days d
    GROUP BY 1, 2, 3, d.weekdays, d.weekend_days, extract(isodow FROM s.hour) >= 6 ORDER BY 1, 2, 3
""")
_INSERT = insert(schema.warm_pools)
_STORE = _INSERT.on_conflict_do_update(
    index_elements=[_w.pool],
    set_={column.name: _INSERT.excluded[column.name] for column in _w if column.name != "pool"},
)


class WarmRow(NamedTuple):
    """The history of a pool, and when its starts were measured."""

    history: WarmHistory
    measured_at: datetime


def read(tx: Tx, pool: str, now: datetime) -> WarmRow:
    """Return the history of a pool. Its starts are measured at most once an hour."""
    row = tx.execute(select(schema.warm_pools).where(_w.pool == pool)).first()
    ledger = WarmLedger(now.timestamp())
    if row is not None:
        ledger = WarmLedger(row.decided_at.timestamp(), row.spent_usd, row.usd_hour)
        if now - row.measured_at < _FRESH:
            rates = tuple(StartRate(*rate) for rate in row.rates)
            return WarmRow(WarmHistory(rates, row.startup_h, ledger), row.measured_at)
    history = WarmHistory(starts(tx, pool, now), deadlines.startup_h(tx, pool), ledger)
    return WarmRow(history, now)


def starts(tx: Tx, pool: str, now: datetime) -> tuple[StartRate, ...]:
    """Return the starts of the last four weeks, by the hour of the day, for weekdays and weekends."""
    values: dict[str, Any] = {
        "pool": pool, "since": now - _MEMORY, "now": now, "least_weekdays": _LEAST_WEEKDAYS,
        "least_weekend_days": _LEAST_WEEKEND_DAYS,
    }  # fmt: skip
    return tuple(StartRate(*row) for row in tx.execute(_STARTS, values))


def store(tx: Tx, decision: WarmDecision, read_row: WarmRow) -> None:
    history, measured_at = read_row
    row = {
        "pool": decision.pool, "rates": [list(rate) for rate in history.rates], "startup_h": history.startup_h,
        "measured_at": measured_at, "machines": decision.choice.machines, "sentence": decision.choice.sentence,
        "decided_at": datetime.fromtimestamp(decision.ledger.at, timezone.utc),
        "spent_usd": decision.ledger.spent_usd, "usd_hour": decision.ledger.usd_hour,
    }  # fmt: skip
    tx.execute(_STORE, row)


class ShownWarmPool(NamedTuple):
    """The last choice of a pool, and the cost of its warm machines today."""

    machines: int
    sentence: str
    spent_usd: float


def shown(tx: Tx, pool: str, now: datetime) -> ShownWarmPool | None:
    """Return None for a pool without a choice yet."""
    query = select(_w.machines, _w.sentence, _w.decided_at, _w.spent_usd, _w.usd_hour)
    row = tx.execute(query.where(_w.pool == pool)).first()
    if row is None:
        return None
    ledger = WarmLedger(row.decided_at.timestamp(), row.spent_usd, row.usd_hour)
    spent_usd = ledger.until(now.timestamp()).spent_usd
    return ShownWarmPool(row.machines, row.sentence, round(spent_usd, 4))
