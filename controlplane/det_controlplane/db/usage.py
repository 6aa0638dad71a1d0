"""What allocations used within a span of time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text

from det_controlplane.db.engine import Tx
from det_controlplane.db.views import time

# What of an allocation's run lies between the two times.
_SECONDS = """extract(epoch FROM least(coalesce(a.ended_at, :now), cast(:before AS timestamptz))
    - greatest(a.started_at, cast(:after AS timestamptz)))"""
_USED = """allocations a JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id
    JOIN users u ON u.id = j.user_id JOIN workspaces w ON w.id = j.workspace_id
    LEFT JOIN experiments e ON e.id = k.experiment_id"""
_OVERLAPS = """a.started_at IS NOT NULL AND a.started_at < cast(:before AS timestamptz)
    AND coalesce(a.ended_at, :now) > cast(:after AS timestamptz)"""
_ALLOCATIONS = text(f"""
    SELECT a.id AS allocation_id, k.kind::text AS task_type, u.username, w.name AS workspace_name, k.experiment_id, a.slots,
           {time("a.started_at")} AS start_time, {time("a.ended_at")} AS end_time,
           coalesce(extract(epoch FROM a.pull_ended_at - a.pull_started_at), 0)::double precision AS imagepulling_time,
           (a.slots * {_SECONDS} / 3600)::double precision AS slot_hours, a.pool AS resource_pool
    FROM {_USED} WHERE {_OVERLAPS} ORDER BY a.started_at, a.id
""")
_RAW = text(f"""
    SELECT CASE k.kind WHEN 'TRIAL' THEN 'training' ELSE lower(k.kind::text) END AS kind, u.username, u.id AS user_id,
           coalesce(e.labels, '{{}}') AS labels, k.experiment_id, a.slots, {time("a.started_at")} AS start_time,
           {time("coalesce(a.ended_at, :now)")} AS end_time, {_SECONDS}::double precision AS seconds
    FROM {_USED} WHERE {_OVERLAPS} ORDER BY a.started_at, a.id
""")
_BY_DAY = text("""
    WITH days AS (SELECT d AS after, d + interval '1 day' AS before
                  FROM generate_series(cast(:first AS timestamptz), cast(:last AS timestamptz), interval '1 day') AS d)
    SELECT d.after, u.username, a.pool, coalesce(e.labels, '{}') AS labels,
           (a.slots * extract(epoch FROM least(coalesce(a.ended_at, :now), d.before) - greatest(a.started_at, d.after)))::double precision AS seconds
    FROM days d JOIN allocations a ON a.started_at < d.before AND coalesce(a.ended_at, :now) > d.after
    JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id JOIN users u ON u.id = j.user_id
    LEFT JOIN experiments e ON e.id = k.experiment_id
    WHERE a.started_at IS NOT NULL AND a.slots > 0 ORDER BY d.after
""")


def allocations(tx: Tx, after: datetime, before: datetime, now: datetime) -> Sequence[Row[Any]]:
    """Return the rows of the report by allocation, with its column names."""
    return tx.execute(_ALLOCATIONS, {"after": after, "before": before, "now": now}).all()


def raw(tx: Tx, after: datetime, before: datetime, now: datetime) -> Sequence[Row[Any]]:
    """Return the rows of the report of Determined's clients, with its column names."""
    return tx.execute(_RAW, {"after": after, "before": before, "now": now}).all()


def by_day(tx: Tx, first: datetime, last: datetime, now: datetime) -> Sequence[Row[Any]]:
    """Return slot-seconds by day, user, pool and labels."""
    return tx.execute(_BY_DAY, {"first": first, "last": last, "now": now}).all()
