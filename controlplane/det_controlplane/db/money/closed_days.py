"""Keep sums of usage and costs for days that have ended, so that reports and budgets need not read all history.

A day passes through three steps, in transactions of their own. It is announced: from then on triggers note each change of
its allocations, containers and machines in `changed_days`. A fence is set behind all transactions that began before the
announcement was visible. When they have ended, the sums are stored. A later change opens the day until it is summed again.
"""

from datetime import datetime, timedelta

from sqlalchemy import text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import costs, usage

# Reports cover three years at most, so that all of their days can be closed.
OLDEST = timedelta(days=3 * 366)
_SUMMED_AT_ONCE = 30  # days

_ONE_SNAPSHOT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(hashtextextended('closed days', 0))")
_FENCE = text("""
    UPDATE closed_days SET fence = pg_snapshot_xmax(pg_current_snapshot())::text::bigint WHERE fence IS NULL
""")
# The first time, the days begin with the first work or machine. PostgreSQL looks for it only then.
_ANNOUNCE = text("""
    INSERT INTO closed_days (day)
    SELECT d FROM generate_series(
        greatest(cast(:oldest AS timestamptz), coalesce((SELECT max(day) + interval '24 hours' FROM closed_days),
            least(cast(:newest AS timestamptz), (SELECT date_trunc('day', min(at), 'UTC') FROM (
                SELECT min(requested_at) AS at FROM allocations UNION ALL SELECT min(started_at) FROM deleted_allocations
                UNION ALL SELECT min(requested_at) FROM instances) first)))),
        cast(:newest AS timestamptz), interval '24 hours') d
    ON CONFLICT DO NOTHING
""")
_DUE = text("""
    SELECT c.day FROM closed_days c
    WHERE c.fence <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
        AND (c.summed_at IS NULL OR EXISTS (SELECT FROM changed_days x WHERE x.day = c.day))
    ORDER BY c.day DESC LIMIT :limit
""")
_IS_DUE = text("""
    SELECT EXISTS (SELECT FROM closed_days WHERE summed_at IS NULL) OR EXISTS (SELECT FROM changed_days)
        OR NOT EXISTS (SELECT FROM closed_days WHERE day >= :newest)
""")
_TABLES = ("usage_of_days", "work_costs_of_days", "machine_costs_of_days")
_DELETE = [
    text(f"DELETE FROM {table} WHERE day = ANY(cast(:days AS timestamptz[]))") for table in _TABLES
]
_SUMMED = text(
    "UPDATE closed_days SET summed_at = :now WHERE day = ANY(cast(:days AS timestamptz[]))"
)
_FORGET_CHANGES = text("DELETE FROM changed_days WHERE day = ANY(cast(:days AS timestamptz[]))")


def is_due(tx: Tx, newest: datetime) -> bool:
    """Return True if there is a day to announce, to fence or to sum; `newest` is the last day that has ended."""
    return bool(tx.execute(_IS_DUE, {"newest": newest}).scalar())


def announce(tx: Tx, newest: datetime) -> None:
    """Fence the days that were announced before, and announce those up to the newest."""
    tx.execute(_FENCE)
    tx.execute(_ANNOUNCE, {"oldest": newest - OLDEST, "newest": newest})


def sum_days(tx: Tx, now: datetime) -> bool:
    """Sum some announced or changed days; return whether more are left. It must be the first of its transaction."""
    tx.execute(_ONE_SNAPSHOT)
    if not tx.execute(_TRY_LOCK).scalar():
        return False
    days = list(tx.execute(_DUE, {"limit": _SUMMED_AT_ONCE}).scalars())
    if not days:
        return False
    params = {"days": days, "first": min(days), "last": max(days), "now": now}
    for statement in _DELETE:
        tx.execute(statement, {"days": days})
    for statement in (usage.SUM_DAYS, *costs.SUM_DAYS):
        tx.execute(statement, params)
    tx.execute(_SUMMED, {"days": days, "now": now})
    # Only changes that this snapshot shows. A later one opens its day again.
    tx.execute(_FORGET_CHANGES, {"days": days})
    return len(days) == _SUMMED_AT_ONCE
