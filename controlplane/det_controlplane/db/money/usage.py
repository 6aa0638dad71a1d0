"""Read the use of slots by allocations within a span of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Row, text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import fields, quoted, time
from det_controlplane.db.money.costs import OVERLAPS, SHARES, Span
from det_controlplane.db.money.open_ranges import DAYS, RANGES, days, seconds_on_day

# The started allocations.
_RUNS = """
    SELECT a.id, k.kind::text AS kind, j.user_id, coalesce(a.workspace_name, w.name) AS workspace_name, k.experiment_id,
           coalesce(e.labels, ARRAY[]::text[]) AS labels, a.slots, a.pool, a.started_at, a.ended_at,
           coalesce(extract(epoch FROM a.pull_ended_at - a.pull_started_at), 0)::double precision AS pull_s
    FROM allocations a JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id
    JOIN workspaces w ON w.id = j.workspace_id LEFT JOIN experiments e ON e.id = k.experiment_id
    WHERE a.started_at IS NOT NULL"""
_COLUMNS = "id, {kind}, user_id, workspace_name, experiment_id, labels, slots, pool, started_at, ended_at, pull_s"
# The same for reports of a period. Most allocations are of trials: they need no look at tasks. The planner does not know that
# few allocations overlap a period. OFFSET 0 makes it look up jobs and experiments instead of reading these tables whole.
_REPORTED = f"""
    SELECT a.id, coalesce(k.kind, 'TRIAL') AS kind, j.user_id, coalesce(a.workspace_name, j.workspace_name) AS workspace_name,
           coalesce(e.id, k.experiment_id) AS experiment_id, coalesce(e.labels, k.labels, ARRAY[]::text[]) AS labels,
           a.slots, a.pool, a.started_at, a.ended_at,
           coalesce(extract(epoch FROM a.pull_ended_at - a.pull_started_at), 0)::double precision AS pull_s
    FROM (SELECT * FROM allocations a WHERE a.started_at IS NOT NULL AND {OVERLAPS} OFFSET 0) a
    CROSS JOIN LATERAL (SELECT j.user_id, w.name AS workspace_name
        FROM jobs j JOIN workspaces w ON w.id = j.workspace_id WHERE j.id = a.job_id OFFSET 0) j
    LEFT JOIN LATERAL (SELECT e.id, e.labels FROM experiments e
        WHERE e.job_id = a.job_id AND a.trial_id IS NOT NULL OFFSET 0) e ON true
    LEFT JOIN LATERAL (SELECT k.kind::text, k.experiment_id, x.labels
        FROM tasks k LEFT JOIN experiments x ON x.id = k.experiment_id
        WHERE k.id = a.task_id AND a.trial_id IS NULL OFFSET 0) k ON true"""
_EVERY = f"""({_REPORTED} UNION ALL SELECT {_COLUMNS.format(kind="task_kind::text AS kind")}
    FROM deleted_allocations a WHERE {OVERLAPS}) a JOIN users u ON u.id = a.user_id"""
# The part of an allocation's run between two times.
_SECONDS = """date_part('epoch', least(coalesce(a.ended_at, :now), cast(:before AS timestamptz))
    - greatest(a.started_at, cast(:after AS timestamptz)))"""
_ALLOCATIONS = text(f"""
    SELECT a.id AS allocation_id, a.kind AS task_type, u.username, a.workspace_name, a.experiment_id, a.slots,
           {time("a.started_at")} AS start_time, {time("a.ended_at")} AS end_time, a.pull_s AS imagepulling_time,
           a.slots * {_SECONDS} / 3600 AS slot_hours, a.pool AS resource_pool
    FROM {_EVERY} ORDER BY a.started_at, a.id
""")
_RAW_FIELDS = fields(
    {
        "startTime": quoted(time("r.started_at")),
        "endTime": quoted(time("coalesce(r.ended_at, :now)")),
        "experimentId": "coalesce(r.experiment_id, 0)",
        "username": "to_json(r.username)",
        "userId": "r.user_id",
        "labels": "to_json(r.labels)",
        "slots": "r.slots",
        "seconds": "r.seconds",
        "slotHours": "round(r.slots * r.seconds / 3600 * 1e6) / 1e6",
        "costUsd": "coalesce(round(r.usd, 6), 0)::double precision",
    }
)
# Python would take longer to make objects of a hundred thousand rows than PostgreSQL takes to find them.
_RAW = text(f"""
    SELECT string_agg(concat('{{"kind":"', CASE r.kind WHEN 'TRIAL' THEN 'training' ELSE lower(r.kind) END, '"',
        {_RAW_FIELDS}, '}}'), ',')
    FROM (SELECT a.*, u.username, {_SECONDS} AS seconds, c.usd
        FROM {_EVERY} LEFT JOIN (SELECT allocation_id, sum(usd) AS usd FROM ({SHARES}) s GROUP BY 1) c
            ON c.allocation_id = a.id
        ORDER BY a.started_at, a.id) r
""")
_END = "coalesce(a.ended_at, cast(:now AS timestamptz))"
_IN_RANGE = """a.slots > 0 AND a.started_at < r.before
    AND (a.ended_at > r.after OR (a.ended_at IS NULL AND cast(:now AS timestamptz) > r.after))"""
# Each allocation is read once and expanded to the days that it touches. The planner does not know that most ranges are
# short. OFFSET 0 makes it look up tasks, jobs and experiments instead of reading these tables whole.
_BY_ROWS = f"""
    SELECT d.day, a.user_id, a.pool, a.labels, a.slots * {seconds_on_day("a.started_at", _END)} AS seconds
    FROM {{ranges}} r CROSS JOIN LATERAL (
        SELECT j.user_id, a.pool, coalesce(e.labels, ARRAY[]::text[]) AS labels, a.slots, a.started_at, a.ended_at
        FROM (SELECT * FROM allocations a WHERE a.started_at IS NOT NULL AND {_IN_RANGE} OFFSET 0) a
        CROSS JOIN LATERAL (SELECT k.experiment_id FROM tasks k WHERE k.id = a.task_id OFFSET 0) k
        CROSS JOIN LATERAL (SELECT j.user_id FROM jobs j WHERE j.id = a.job_id OFFSET 0) j
        LEFT JOIN LATERAL (SELECT e.labels FROM experiments e WHERE e.id = k.experiment_id OFFSET 0) e ON true
        UNION ALL SELECT user_id, pool, labels, slots, started_at, ended_at FROM deleted_allocations a WHERE {_IN_RANGE}
    ) a CROSS JOIN LATERAL {days("a.started_at", _END)}
"""
_BY = "SELECT start, json_object_agg(key, seconds ORDER BY key)::text AS sums FROM (SELECT start, key, sum(seconds)::double precision AS seconds FROM ({parts}) x GROUP BY 1, 2) y GROUP BY start"
_USERS = "SELECT start, username AS key, seconds FROM parts JOIN users ON users.id = user_id"
_LABELS = "SELECT start, unnest(labels) AS key, seconds FROM parts"
_BY_DAY = text(f"""
    WITH {RANGES}, parts AS MATERIALIZED (
        SELECT c.start, u.user_id, u.pool, u.labels, u.seconds
        FROM (SELECT day, date_trunc(:unit, day, 'UTC') AS start FROM closed) c JOIN usage_of_days u USING (day)
        UNION ALL SELECT date_trunc(:unit, p.day, 'UTC'), p.user_id, p.pool, p.labels, p.seconds
        FROM ({_BY_ROWS.format(ranges="ranges")}) p)
    SELECT p.start, p.seconds, u.sums AS by_username, p.sums AS by_pool, coalesce(l.sums, '{{}}') AS by_label
    FROM (SELECT start, sum(seconds)::double precision AS seconds,
            json_object_agg(pool, seconds::double precision ORDER BY pool)::text AS sums
        FROM (SELECT start, pool, sum(seconds) AS seconds FROM parts GROUP BY 1, 2) x GROUP BY start) p
    JOIN ({_BY.format(parts=_USERS)}) u USING (start) LEFT JOIN ({_BY.format(parts=_LABELS)}) l USING (start)
    ORDER BY p.start
""")
SUM_DAYS = text(f"""
    INSERT INTO usage_of_days (day, user_id, pool, labels, seconds)
    SELECT day, user_id, pool, labels, sum(seconds) FROM ({_BY_ROWS.format(ranges=DAYS)}) p
    WHERE day = ANY(cast(:days AS timestamptz[])) GROUP BY day, user_id, pool, labels
""")
_KEEP = f"""
    INSERT INTO deleted_allocations ({_COLUMNS.format(kind="task_kind")})
    SELECT {_COLUMNS.format(kind="cast(kind AS task_kind)")} FROM ({_RUNS} AND a.ended_at IS NOT NULL AND {{which}}) a
    ON CONFLICT DO NOTHING"""
# The fields of containers on rented machines that costs need.
_KEEP_SHARES = """
    INSERT INTO deleted_containers (id, allocation_id, trial_id, experiment_id, user_id, workspace_id, labels, task_kind, allocation_slots,
                                    agent_id, slots, assigned_at, ended_at)
    SELECT c.id, a.id, a.trial_id, k.experiment_id, j.user_id, coalesce(p.workspace_id, j.workspace_id),
           coalesce(e.labels, ARRAY[]::text[]), k.kind, a.slots, c.agent_id, cardinality(c.slot_ids),
           c.assigned_at, c.ended_at
    FROM containers c JOIN allocations a ON a.id = c.allocation_id JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id
    LEFT JOIN experiments e ON e.id = k.experiment_id LEFT JOIN projects p ON p.id = e.project_id
    WHERE c.ended_at IS NOT NULL AND cardinality(c.slot_ids) > 0 AND {which}
      AND EXISTS (SELECT 1 FROM instances i WHERE i.agent_id = c.agent_id)
    ON CONFLICT DO NOTHING"""
_OF_EXPERIMENT, _OF_WORKSPACE = "k.experiment_id = :id", "j.workspace_id = :id"
_OF_TASKS = "k.id = ANY(cast(:ids AS text[]))"
_KEEP_OF_EXPERIMENT = [text(sql.format(which=_OF_EXPERIMENT)) for sql in (_KEEP, _KEEP_SHARES)]
_KEEP_OF_WORKSPACE = [text(sql.format(which=_OF_WORKSPACE)) for sql in (_KEEP, _KEEP_SHARES)]
_KEEP_OF_ALLOCATIONS = text(_KEEP_SHARES.format(which="a.id = ANY(cast(:ids AS text[]))"))
_KEEP_OF_TASKS = [text(sql.format(which=_OF_TASKS)) for sql in (_KEEP, _KEEP_SHARES)]


@dataclass(frozen=True, slots=True)
class SlotSeconds:
    """The use of slots in a day or month: in total, and by user, pool and label as JSON text."""

    start: datetime
    seconds: float
    by_username: str
    by_pool: str
    by_label: str


def keep_of_experiment(tx: Tx, experiment_id: int) -> None:
    """Store usage and costs of the allocations of an experiment before they are deleted."""
    for statement in _KEEP_OF_EXPERIMENT:
        tx.execute(statement, {"id": experiment_id})


def keep_of_workspace(tx: Tx, workspace_id: int) -> None:
    """Store usage and costs of the allocations of a workspace before they are deleted."""
    for statement in _KEEP_OF_WORKSPACE:
        tx.execute(statement, {"id": workspace_id})


def keep_of_tasks(tx: Tx, ids: Sequence[str]) -> None:
    """Store usage and costs of the allocations of tasks before they are deleted."""
    for statement in _KEEP_OF_TASKS:
        tx.execute(statement, {"ids": list(ids)})


def keep_of_allocations(tx: Tx, ids: Sequence[str]) -> None:
    """Store the cost of machines for allocations that are about to be deleted before they began."""
    tx.execute(_KEEP_OF_ALLOCATIONS, {"ids": list(ids)})


def allocations(tx: Tx, span: Span) -> Sequence[Row[Any]]:
    """Return the rows of the report by allocation, with its column names."""
    return tx.execute(_ALLOCATIONS, span.params()).all()


def raw(tx: Tx, span: Span) -> str:
    """Return the JSON of the entries of allocations, separated by commas, with their share of the cost of machines."""
    return tx.execute(_RAW, span.params()).scalar() or ""


def by_day(
    tx: Tx, first: datetime, last: datetime, now: datetime, unit: Literal["day", "month"] = "day"
) -> list[SlotSeconds]:
    period = Span(first, last + timedelta(days=1), now).params()
    return [SlotSeconds(*r) for r in tx.execute(_BY_DAY, {**period, "unit": unit}).all()]
