"""Read the use of slots by allocations within a span of time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text

from det_controlplane.db.engine import Tx
from det_controlplane.db.views import time

# The allocations that started, also those whose experiments or workspaces are gone.
_RUNS = """
    SELECT a.id, k.kind::text AS kind, j.user_id, coalesce(a.workspace_name, w.name) AS workspace_name, k.experiment_id,
           coalesce(e.labels, ARRAY[]::text[]) AS labels, a.slots, a.pool, a.started_at, a.ended_at,
           coalesce(extract(epoch FROM a.pull_ended_at - a.pull_started_at), 0)::double precision AS pull_s
    FROM allocations a JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id
    JOIN workspaces w ON w.id = j.workspace_id LEFT JOIN experiments e ON e.id = k.experiment_id
    WHERE a.started_at IS NOT NULL"""
_COLUMNS = "id, {kind}, user_id, workspace_name, experiment_id, labels, slots, pool, started_at, ended_at, pull_s"
_EVERY = f"""({_RUNS} UNION ALL SELECT {_COLUMNS.format(kind="task_kind::text AS kind")} FROM deleted_allocations) a
    JOIN users u ON u.id = a.user_id"""
# What of an allocation's run lies between the two times.
_SECONDS = """extract(epoch FROM least(coalesce(a.ended_at, :now), cast(:before AS timestamptz))
    - greatest(a.started_at, cast(:after AS timestamptz)))"""
_OVERLAPS = """a.started_at < cast(:before AS timestamptz)
    AND coalesce(a.ended_at, :now) > cast(:after AS timestamptz)"""
_ALLOCATIONS = text(f"""
    SELECT a.id AS allocation_id, a.kind AS task_type, u.username, a.workspace_name, a.experiment_id, a.slots,
           {time("a.started_at")} AS start_time, {time("a.ended_at")} AS end_time, a.pull_s AS imagepulling_time,
           (a.slots * {_SECONDS} / 3600)::double precision AS slot_hours, a.pool AS resource_pool
    FROM {_EVERY} WHERE {_OVERLAPS} ORDER BY a.started_at, a.id
""")
_RAW = text(f"""
    SELECT a.id AS allocation_id, CASE a.kind WHEN 'TRIAL' THEN 'training' ELSE lower(a.kind) END AS kind, u.username, u.id AS user_id,
           a.labels, a.experiment_id, a.slots, {time("a.started_at")} AS start_time,
           {time("coalesce(a.ended_at, :now)")} AS end_time, {_SECONDS}::double precision AS seconds
    FROM {_EVERY} WHERE {_OVERLAPS} ORDER BY a.started_at, a.id
""")
# Each allocation is read once and expanded to the days that it touches.
_BY_DAY = text(f"""
    SELECT d.after, u.username, a.pool, a.labels,
           sum(a.slots * extract(epoch FROM least(coalesce(a.ended_at, :now), d.after + interval '1 day')
               - greatest(a.started_at, d.after)))::double precision AS seconds
    FROM {_EVERY} CROSS JOIN LATERAL generate_series(
        cast(:first AS timestamptz) + interval '1 day' * greatest(0, floor(extract(epoch FROM a.started_at - cast(:first AS timestamptz)) / 86400)),
        least(cast(:last AS timestamptz), coalesce(a.ended_at, :now) - interval '1 microsecond'), interval '1 day') AS d (after)
    WHERE a.slots > 0 AND a.started_at < cast(:last AS timestamptz) + interval '1 day'
        AND coalesce(a.ended_at, :now) > cast(:first AS timestamptz)
    GROUP BY d.after, u.username, a.pool, a.labels ORDER BY d.after, u.username, a.pool, a.labels
""")
_KEEP = f"""
    INSERT INTO deleted_allocations ({_COLUMNS.format(kind="task_kind")})
    SELECT {_COLUMNS.format(kind="cast(kind AS task_kind)")} FROM ({_RUNS} AND a.ended_at IS NOT NULL AND {{which}}) a
    ON CONFLICT DO NOTHING"""
# What money needs of containers: those that held slots of rented machines.
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


def keep_of_experiment(tx: Tx, experiment_id: int) -> None:
    """Remember what the allocations of an experiment used and cost, which are about to be deleted."""
    for statement in _KEEP_OF_EXPERIMENT:
        tx.execute(statement, {"id": experiment_id})


def keep_of_workspace(tx: Tx, workspace_id: int) -> None:
    """Remember what the allocations of a workspace used and cost, which are about to be deleted."""
    for statement in _KEEP_OF_WORKSPACE:
        tx.execute(statement, {"id": workspace_id})


def keep_of_tasks(tx: Tx, ids: Sequence[str]) -> None:
    """Remember what the allocations of some tasks used and cost, which are about to be deleted."""
    for statement in _KEEP_OF_TASKS:
        tx.execute(statement, {"ids": list(ids)})


def keep_of_allocations(tx: Tx, ids: Sequence[str]) -> None:
    """Store the cost of machines for allocations that are about to be deleted before they began."""
    tx.execute(_KEEP_OF_ALLOCATIONS, {"ids": list(ids)})


def allocations(tx: Tx, after: datetime, before: datetime, now: datetime) -> Sequence[Row[Any]]:
    """Return the rows of the report by allocation, with its column names."""
    return tx.execute(_ALLOCATIONS, {"after": after, "before": before, "now": now}).all()


def raw(tx: Tx, after: datetime, before: datetime, now: datetime) -> Sequence[Row[Any]]:
    """Return the rows of the report of Determined's clients, with its column names."""
    return tx.execute(_RAW, {"after": after, "before": before, "now": now}).all()


def by_day(tx: Tx, first: datetime, last: datetime, now: datetime) -> Sequence[Row[Any]]:
    """Return slot-seconds by day, user, pool and labels."""
    return tx.execute(_BY_DAY, {"first": first, "last": last, "now": now}).all()
