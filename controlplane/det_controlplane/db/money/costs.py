"""Read the costs of rented machines by the work on them.

A container costs its share of the machine's slots while it holds them. The other time is idle. So the costs of all
containers and the idle costs add up to the costs of the machines, for any period.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import text

from det_controlplane.core.money.budget import BudgetScope
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money.open_ranges import DAYS, RANGES, days, seconds_on_day

# Slot-seconds and dollars of containers `c` on rented machines, within the period and the life of the machine.
_SHARE = """i.pool, i.id AS instance_id, x.start_time, x.end_time, x.seconds * {slots} AS slot_seconds,
    x.seconds * {slots} / i.slots * i.price_usd_hour / 3600 AS usd"""
_SPAN = """CROSS JOIN LATERAL (SELECT *, greatest(0, extract(epoch FROM end_time - start_time))::numeric AS seconds FROM (SELECT
        least(coalesce(c.ended_at, :now), coalesce(i.ended_at, :now), :before) AS end_time,
        greatest(c.assigned_at, i.launched_at, :after) AS start_time) y) x
    WHERE i.launched_at IS NOT NULL AND i.slots > 0 AND {slots} > 0 AND x.seconds > 0
        AND i.launched_at < :before AND (i.ended_at > :after OR i.ended_at IS NULL)
        AND c.assigned_at < :before AND (c.ended_at > :after OR c.ended_at IS NULL)"""
_HELD = {"slots": "cardinality(c.slot_ids)"}
# Whether an allocation `a` ran in the period.
OVERLAPS = """a.started_at < cast(:before AS timestamptz) AND (a.ended_at > cast(:after AS timestamptz)
    OR (a.ended_at IS NULL AND cast(:now AS timestamptz) > cast(:after AS timestamptz)))"""
# Deleted work keeps its share, because budgets and users still count it.
SHARES = f"""
    SELECT a.id AS allocation_id, a.trial_id, k.id AS task_id, k.experiment_id, j.user_id, coalesce(p.workspace_id, j.workspace_id) AS workspace_id,
           coalesce(e.labels, ARRAY[]::text[]) AS labels, k.kind, a.slots, {_SHARE.format(**_HELD)}
    FROM instances i JOIN containers c ON c.agent_id = i.agent_id JOIN allocations a ON a.id = c.allocation_id
    JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id LEFT JOIN experiments e ON e.id = k.experiment_id
    LEFT JOIN projects p ON p.id = e.project_id {_SPAN.format(**_HELD)}
    UNION ALL
    SELECT c.allocation_id, c.trial_id, NULL, c.experiment_id, c.user_id, c.workspace_id, c.labels, c.task_kind, c.allocation_slots,
           {_SHARE.format(slots="c.slots")}
    FROM instances i JOIN deleted_containers c ON c.agent_id = i.agent_id {_SPAN.format(slots="c.slots")}
"""
_MACHINES = """
    SELECT i.id, i.pool, x.seconds * i.slots AS slot_seconds, x.seconds * i.price_usd_hour / 3600 AS usd
    FROM instances i CROSS JOIN LATERAL (SELECT greatest(0, extract(epoch FROM
        least(coalesce(i.ended_at, :now), :before) - greatest(i.launched_at, :after)))::numeric AS seconds) x
    WHERE i.launched_at IS NOT NULL AND coalesce(i.ended_at, :now) > :after AND i.launched_at < :before
        AND (i.ended_at > :after OR i.ended_at IS NULL)
"""


def _limit_to_period(sql: str) -> str:
    """Return the SQL of a report about the period, for a range `r` of it."""
    return sql.replace(":after", "r.after").replace(":before", "r.before")


_BY_EXPERIMENT = text(f"""
    SELECT experiment_id, sum(usd) AS usd, sum(slot_seconds) / 3600 AS slot_hours FROM ({SHARES}) s
    WHERE experiment_id = ANY(cast(:ids AS integer[])) GROUP BY experiment_id
""")
_BY_TRIAL = text(f"""
    SELECT trial_id, sum(usd) AS usd, sum(slot_seconds) / 3600 AS slot_hours FROM ({SHARES}) s
    WHERE trial_id = ANY(cast(:ids AS integer[])) GROUP BY trial_id
""")
_BY_TASK = text(f"""
    SELECT task_id, sum(usd) AS usd, sum(slot_seconds) / 3600 AS slot_hours FROM ({SHARES}) s
    WHERE task_id = ANY(cast(:ids AS text[])) GROUP BY task_id
""")
_RUNS = text(f"""
    SELECT json_build_object('allocationId', a.id, 'maxSlots', a.max_slots, 'costUsd', coalesce(s.usd, 0)::float8, 'slotHours', coalesce(s.slot_hours, 0)::float8,
        'machines', (SELECT coalesce(json_agg(json_build_object('agentId', c.agent_id, 'rank', c.rank, 'slots', cardinality(c.slot_ids),
                'provider', i.provider, 'zone', coalesce(nullif(i.zone, ''), i.region), 'machineType', i.machine_type,
                'capacity', i.capacity, 'priceUsdHour', i.price_usd_hour::float8) ORDER BY c.rank), '[]'::json)
            FROM containers c LEFT JOIN instances i ON i.agent_id = c.agent_id WHERE c.allocation_id = a.id AND c.epoch = a.epoch))
    FROM allocations a LEFT JOIN (SELECT allocation_id, round(sum(usd), 6) AS usd, round(sum(slot_seconds) / 3600, 6) AS slot_hours
        FROM ({SHARES}) x WHERE x.task_id = :task_id GROUP BY allocation_id) s ON s.allocation_id = a.id
    WHERE a.task_id = :task_id ORDER BY a.run_id
""")
_BY_USER = text(f"""
    WITH {RANGES}, parts AS (
        SELECT user_id, usd, slot_seconds FROM closed JOIN work_costs_of_days USING (day)
        UNION ALL SELECT s.user_id, s.usd, s.slot_seconds FROM ranges r CROSS JOIN LATERAL ({_limit_to_period(SHARES)}) s)
    SELECT u.username AS name, sum(s.usd) AS usd, sum(s.slot_seconds) / 3600 AS slot_hours
    FROM parts s JOIN users u ON u.id = s.user_id
    WHERE cast(:user_id AS integer) IS NULL OR u.id = :user_id GROUP BY u.username ORDER BY 2 DESC
""")
_BY_POOL = text(f"""
    WITH {RANGES}, machines AS (
        SELECT pool, usd FROM closed JOIN machine_costs_of_days USING (day)
        UNION ALL SELECT m.pool, m.usd FROM ranges r CROSS JOIN LATERAL ({_limit_to_period(_MACHINES)}) m),
    work AS (
        SELECT pool, usd, slot_seconds FROM closed JOIN work_costs_of_days USING (day)
        UNION ALL SELECT s.pool, s.usd, s.slot_seconds FROM ranges r CROSS JOIN LATERAL ({_limit_to_period(SHARES)}) s)
    SELECT m.pool AS name, sum(m.usd) AS usd, coalesce(max(w.usd), 0) AS working_usd,
           coalesce(max(w.slot_seconds), 0) / 3600 AS slot_hours
    FROM machines m LEFT JOIN (SELECT pool, sum(usd) AS usd, sum(slot_seconds) AS slot_seconds
                               FROM work GROUP BY pool) w ON w.pool = m.pool
    GROUP BY m.pool ORDER BY m.pool
""")
# Allocations that held slots in the period and did not run in it.
_NOT_RUNNING = text(f"""
    SELECT s.allocation_id, s.kind::text AS kind, s.experiment_id, u.username, u.id AS user_id, s.labels, s.slots,
           min(s.start_time) AS start_time, max(s.end_time) AS end_time, sum(s.usd) AS usd
    FROM ({SHARES}) s JOIN users u ON u.id = s.user_id
    WHERE NOT EXISTS (SELECT FROM allocations a WHERE a.id = s.allocation_id AND {OVERLAPS})
        AND NOT EXISTS (SELECT FROM deleted_allocations a WHERE a.id = s.allocation_id AND {OVERLAPS})
    GROUP BY s.allocation_id, s.kind, s.experiment_id, u.id, s.labels, s.slots ORDER BY start_time, s.allocation_id
""")
# Each machine with its cost that is not covered by work.
_IDLE = text(f"""
    SELECT m.id::text AS id, i.slots, greatest(i.launched_at, :after) AS start_time,
           least(coalesce(i.ended_at, :now), :before) AS end_time,
           m.usd - coalesce(w.usd, 0) AS usd
    FROM ({_MACHINES}) m JOIN instances i ON i.id = m.id
    LEFT JOIN (SELECT instance_id, sum(usd) AS usd FROM ({SHARES}) s GROUP BY instance_id) w ON w.instance_id = m.id
    ORDER BY i.launched_at, i.id
""")
# Each share or machine is read once and expanded to the days that it touches.
_WORK_BY_ROWS = f"""
    SELECT d.day, s.user_id, s.workspace_id, s.pool, s.labels,
        s.slot_seconds * {seconds_on_day("s.start_time", "s.end_time")} / extract(epoch FROM s.end_time - s.start_time) AS slot_seconds,
        s.usd * {seconds_on_day("s.start_time", "s.end_time")} / extract(epoch FROM s.end_time - s.start_time) AS usd
    FROM {{ranges}} r CROSS JOIN LATERAL ({_limit_to_period(SHARES)}) s CROSS JOIN LATERAL {days("s.start_time", "s.end_time")}
"""
_MACHINES_BY_ROWS = f"""
    SELECT d.day, i.pool, {seconds_on_day("i.start_time", "i.end_time")} * i.price_usd_hour / 3600 AS usd
    FROM {{ranges}} r CROSS JOIN LATERAL (
        SELECT pool, price_usd_hour, greatest(launched_at, r.after) AS start_time,
            least(coalesce(ended_at, :now), r.before) AS end_time
        FROM instances WHERE launched_at < r.before AND (ended_at > r.after OR ended_at IS NULL)) i
    CROSS JOIN LATERAL {days("i.start_time", "i.end_time")}
    WHERE i.end_time > i.start_time
"""
_BY = "SELECT start, json_object_agg(key, usd ORDER BY key)::text AS sums FROM (SELECT start, {key} AS key, sum(usd)::double precision AS usd FROM parts {join} GROUP BY 1, 2) x GROUP BY start"
_WORK_BY_DAY = text(f"""
    WITH {RANGES}, parts AS MATERIALIZED (SELECT date_trunc(:unit, p.day, 'UTC') AS start, p.user_id, p.labels, p.usd FROM (
        SELECT day, user_id, labels, usd FROM closed JOIN work_costs_of_days USING (day)
        UNION ALL SELECT day, user_id, labels, usd FROM ({_WORK_BY_ROWS.format(ranges="ranges")}) w) p)
    SELECT start, u.sums AS by_username, coalesce(l.sums, '{{}}') AS by_label
    FROM ({_BY.format(key="username", join="JOIN users ON users.id = user_id")}) u
    LEFT JOIN ({_BY.format(key="label", join="CROSS JOIN unnest(labels) label")}) l USING (start)
""")
_MACHINES_BY_DAY = text(f"""
    WITH {RANGES}, parts AS MATERIALIZED (SELECT date_trunc(:unit, p.day, 'UTC') AS start, p.pool, p.usd FROM (
        SELECT day, pool, usd FROM closed JOIN machine_costs_of_days USING (day)
        UNION ALL {_MACHINES_BY_ROWS.format(ranges="ranges")}) p)
    SELECT start, t.usd, p.sums AS by_pool
    FROM (SELECT start, sum(usd)::double precision AS usd FROM parts GROUP BY start) t
    JOIN ({_BY.format(key="pool", join="")}) p USING (start)
""")
SUM_DAYS = (
    text(f"""
        INSERT INTO work_costs_of_days (day, user_id, workspace_id, pool, labels, slot_seconds, usd)
        SELECT day, user_id, workspace_id, pool, labels, sum(slot_seconds), sum(usd)
        FROM ({_WORK_BY_ROWS.format(ranges=DAYS)}) p WHERE day = ANY(cast(:days AS timestamptz[]))
        GROUP BY day, user_id, workspace_id, pool, labels
    """),
    text(f"""
        INSERT INTO machine_costs_of_days (day, pool, usd)
        SELECT day, pool, sum(usd) FROM ({_MACHINES_BY_ROWS.format(ranges=DAYS)}) p
        WHERE day = ANY(cast(:days AS timestamptz[])) GROUP BY day, pool
    """),
)


def _spent_of(column: str) -> str:
    """Return SQL of the cost of a user's or workspace's work."""
    return f"""
        WITH {RANGES} SELECT sum(usd) FROM (
            SELECT w.usd FROM closed JOIN work_costs_of_days w USING (day) WHERE w.{column} = cast(:scope_id AS integer)
            UNION ALL SELECT s.usd FROM ranges r CROSS JOIN LATERAL ({_limit_to_period(SHARES)}) s
            WHERE s.{column} = cast(:scope_id AS integer)) x
    """


_SPENT = {
    BudgetScope.EXPERIMENT: f"SELECT sum(usd) FROM ({SHARES}) s WHERE experiment_id = cast(:scope_id AS integer)",
    BudgetScope.USER: _spent_of("user_id"),
    BudgetScope.WORKSPACE: _spent_of("workspace_id"),
    BudgetScope.POOL: f"""
        WITH {RANGES} SELECT sum(usd) FROM (
            SELECT m.usd FROM closed JOIN machine_costs_of_days m USING (day) WHERE m.pool = :scope_id
            UNION ALL SELECT m.usd FROM ranges r CROSS JOIN LATERAL ({_limit_to_period(_MACHINES)}) m WHERE m.pool = :scope_id) x
    """,
}
_SPENT_IN = {scope: text(sql) for scope, sql in _SPENT.items()}


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold the cost of the work of an experiment, a trial or a task."""

    id: int | str
    usd: Decimal
    slot_hours: Decimal


@dataclass(frozen=True, slots=True)
class NamedCost:
    name: str
    usd: Decimal
    slot_hours: Decimal


@dataclass(frozen=True, slots=True)
class PoolCost:
    """Hold the cost of a pool's machines, and the part of it that worked."""

    name: str
    usd: Decimal
    working_usd: Decimal
    slot_hours: Decimal

    @property
    def idle_usd(self) -> Decimal:
        return self.usd - self.working_usd


@dataclass(frozen=True, slots=True)
class IdleMachine:
    """Hold the cost of a machine's idle time in a period."""

    id: str
    slots: int
    start_time: datetime
    end_time: datetime
    usd: Decimal


@dataclass(frozen=True, slots=True)
class AllocationCost:
    """The cost of an allocation in a period, from the assignment of its slots."""

    allocation_id: str
    kind: str
    experiment_id: int | None
    username: str
    user_id: int
    labels: Sequence[str]
    slots: int
    start_time: datetime
    end_time: datetime
    usd: Decimal


@dataclass(frozen=True, slots=True)
class WorkCosts:
    """The costs of work in a day or month, as JSON text."""

    start: datetime
    by_username: str
    by_label: str


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """The costs of machines in a day or month: in total, and by pool as JSON text."""

    start: datetime
    usd: float
    by_pool: str


@dataclass(frozen=True, slots=True)
class Span:
    """A period, and the time until which running machines are counted."""

    after: datetime
    before: datetime
    now: datetime

    def params(self) -> dict[str, datetime]:
        return {"after": self.after, "before": self.before, "now": self.now}


def of_experiments(tx: Tx, ids: Sequence[int], span: Span) -> list[Cost]:
    return [Cost(*r) for r in tx.execute(_BY_EXPERIMENT, {"ids": list(ids), **span.params()}).all()]


def of_trials(tx: Tx, ids: Sequence[int], span: Span) -> list[Cost]:
    return [Cost(*r) for r in tx.execute(_BY_TRIAL, {"ids": list(ids), **span.params()}).all()]


def of_tasks(tx: Tx, ids: Sequence[str], span: Span) -> list[Cost]:
    return [Cost(*r) for r in tx.execute(_BY_TASK, {"ids": list(ids), **span.params()}).all()]


def of_runs(tx: Tx, task_id: str, span: Span) -> list[dict[str, Any]]:
    """Return each allocation of a task with its cost and machines, in the API's JSON."""
    return list(tx.execute(_RUNS, {"task_id": task_id, **span.params()}).scalars())


def by_user(tx: Tx, span: Span, user_id: int | None = None) -> list[NamedCost]:
    """Return the cost of each user's work, or of one user's."""
    rows = tx.execute(_BY_USER, {**span.params(), "user_id": user_id}).all()
    return [NamedCost(*r) for r in rows]


def not_running(tx: Tx, span: Span) -> list[AllocationCost]:
    """Return the costs of allocations that held slots in a period and did not run in it."""
    return [AllocationCost(*r) for r in tx.execute(_NOT_RUNNING, span.params()).all()]


def idle_of_machines(tx: Tx, span: Span) -> list[IdleMachine]:
    return [IdleMachine(*r) for r in tx.execute(_IDLE, span.params()).all()]


def work_by_day(
    tx: Tx, first: datetime, last: datetime, now: datetime, unit: Literal["day", "month"] = "day"
) -> list[WorkCosts]:
    period = Span(first, last + timedelta(days=1), now).params()
    return [WorkCosts(*r) for r in tx.execute(_WORK_BY_DAY, {**period, "unit": unit}).all()]


def machines_by_day(
    tx: Tx, first: datetime, last: datetime, now: datetime, unit: Literal["day", "month"] = "day"
) -> list[MachineCosts]:
    period = Span(first, last + timedelta(days=1), now).params()
    return [MachineCosts(*r) for r in tx.execute(_MACHINES_BY_DAY, {**period, "unit": unit}).all()]


def by_pool(tx: Tx, span: Span) -> list[PoolCost]:
    return [PoolCost(*r) for r in tx.execute(_BY_POOL, span.params()).all()]


def spent(tx: Tx, scope: BudgetScope, scope_id: str, span: Span) -> Decimal:
    """Return the cost of the work in a budget's scope in a period. For a pool it is the cost of its machines,
    including idle ones."""
    amount = tx.execute(_SPENT_IN[scope], {"scope_id": scope_id, **span.params()}).scalar()
    return Decimal(amount or 0)
