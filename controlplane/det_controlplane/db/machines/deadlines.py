"""Rows of experiments with a deadline: their measured progress, and the decisions about their machines."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import delete, select, text, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.provision.deadline_model import (
    DeadlineDecision,
    DeadlineJob,
    DeadlineRun,
    DeadlineState,
)
from det_controlplane.core.provision.work_left import LEAST_STARTUP_H, USUAL_STARTUP_H
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx, as_json

_d = schema.deadlines.c
# The work after the newest checkpoint of a trial is repeated if its machine is lost.
_JOBS = """
    SELECT d.experiment_id, e.job_id::text AS job_id, d.deadline, d.expected_h, d.state, coalesce(e.progress, 0) AS progress,
        e.slots_per_trial AS slots, coalesce((e.config#>>'{{resources,is_single_node}}')::boolean, false) AS single_agent,
        coalesce((SELECT sum(date_part('epoch', coalesce(a.ended_at, :now) - a.started_at)) FROM allocations a
            WHERE a.job_id = e.job_id AND a.started_at IS NOT NULL), 0) AS run_s,
        coalesce((SELECT max(x.seconds) FROM trials t CROSS JOIN LATERAL (
            SELECT sum(greatest(0, date_part('epoch', coalesce(a.ended_at, :now) - greatest(a.started_at, k.saved_at))))
                AS seconds
            FROM allocations a CROSS JOIN (
                SELECT max(c.reported_at) AS saved_at FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'COMPLETED'
            ) k WHERE a.trial_id = t.id AND a.started_at IS NOT NULL) x
            WHERE t.experiment_id = e.id AND t.ended_at IS NULL), 0) AS unsaved_s,
        coalesce((SELECT json_agg(json_build_array(a.id, coalesce(i.id::text, ''), a.slots,
                date_part('epoch', a.assigned_at), a.started_at IS NOT NULL AND a.ready,
                a.preemptible AND a.ready AND a.preempt_at IS NULL AND NOT a.killed,
                a.preempt_at IS NOT NULL OR a.killed, a.state = 'QUEUED') ORDER BY a.id)
            FROM allocations a LEFT JOIN LATERAL (
                SELECT i.id FROM containers c JOIN instances i ON i.agent_id = c.agent_id
                WHERE c.allocation_id = a.id AND c.epoch = a.epoch AND i.state NOT IN ('GONE', 'FAILED')
                ORDER BY c.rank LIMIT 1) i ON a.state <> 'QUEUED'
            WHERE a.job_id = e.job_id AND a.pool = j.pool AND a.state <> 'TERMINATED'), '[]') AS allocations
    FROM deadlines d JOIN experiments e ON e.id = d.experiment_id JOIN jobs j ON j.id = e.job_id
    WHERE e.ended_at IS NULL AND {condition} ORDER BY d.experiment_id
"""
_JOBS_OF_POOL = text(_JOBS.format(condition="j.pool = :pool"))
# The provisioner decides about the other experiments.
_WATCHED = "(j.pool <> ALL(cast(:rented AS text[])) OR e.state = 'PAUSED') AND d.state <> 'MISSED'"
_WATCHED_JOBS = text(
    _JOBS.format(
        condition=f"{_WATCHED} AND (d.decided_at IS NULL OR d.decided_at <= :before OR d.deadline <= :now)"
    )
)
_NEXT_WATCHES = text(f"""
    SELECT e.state = 'PAUSED' AS is_paused, min(CASE WHEN d.decided_at IS NULL THEN cast(:now AS timestamptz)
        ELSE least(d.decided_at + cast(:interval AS interval), greatest(d.deadline, d.decided_at)) END) AS due
    FROM deadlines d JOIN experiments e ON e.id = d.experiment_id JOIN jobs j ON j.id = e.job_id
    WHERE e.ended_at IS NULL AND {_WATCHED} GROUP BY 1
""")
# The 90th percentile of recent starts.
_STARTUP = text("""
    SELECT (SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY s) FROM (
            SELECT date_part('epoch', registered_at - requested_at) AS s FROM instances
            WHERE pool = :pool AND registered_at IS NOT NULL ORDER BY requested_at DESC LIMIT 20) m)
        + coalesce((SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY s) FROM (
            SELECT date_part('epoch', started_at - assigned_at) AS s FROM allocations
            WHERE pool = :pool AND started_at IS NOT NULL AND trial_id IS NOT NULL
            ORDER BY started_at DESC LIMIT 20) c), 0) AS seconds
""")
# A transaction that holds an experiment locks its allocations in any order. Skip locked ones instead of waiting.
_ALLOW = text("""
    WITH x AS (
        SELECT s.* FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS s (id text, capacity text)
        JOIN allocations f ON f.id = s.id WHERE f.state = 'QUEUED' AND f.capacity IS DISTINCT FROM s.capacity
        FOR NO KEY UPDATE OF f SKIP LOCKED)
    UPDATE allocations a SET capacity = x.capacity FROM x WHERE a.id = x.id RETURNING a.pool
""")


_FREE = text("""
    UPDATE allocations a SET capacity = NULL FROM experiments e
    WHERE e.id = :experiment_id AND a.job_id = e.job_id AND a.state = 'QUEUED'
""")


class Deadline(NamedTuple):
    """A deadline with the last sentence about it, and the pool of its experiment."""

    deadline: datetime
    sentence: str
    pool: str


_PUT = insert(schema.deadlines)
_PUT = _PUT.on_conflict_do_update(
    index_elements=[_d.experiment_id],
    # The outlook of the earlier deadline ends with it.
    set_={
        **{column.name: column for column in _PUT.excluded if not column.primary_key},
    },
)


def put(tx: Tx, experiment_id: int, deadline: datetime, expected_h: float | None) -> None:
    """Set the deadline of an experiment."""
    row = {"experiment_id": experiment_id, "deadline": deadline, "expected_h": expected_h}
    tx.execute(_PUT, row)


def remove(tx: Tx, experiment_id: int) -> None:
    """Remove the deadline of an experiment. Its queued allocations may use any machine again."""
    if tx.execute(delete(schema.deadlines).where(_d.experiment_id == experiment_id)).rowcount:
        tx.execute(_FREE, {"experiment_id": experiment_id})


def of(tx: Tx, experiment_id: int) -> Deadline | None:
    e, j = schema.experiments, schema.jobs
    query = select(_d.deadline, _d.sentence, j.c.pool).select_from(
        schema.deadlines.join(e, e.c.id == _d.experiment_id).join(j, j.c.id == e.c.job_id)
    )
    row = tx.execute(query.where(_d.experiment_id == experiment_id)).first()
    return None if row is None else Deadline(*row)


def startup_h(tx: Tx, pool: str) -> float:
    """Return the hours from the rental of a machine to the first step, as measured in a pool."""
    seconds = tx.execute(_STARTUP, {"pool": pool}).scalar()
    return USUAL_STARTUP_H if seconds is None else max(LEAST_STARTUP_H, float(seconds) / 3600)


def jobs(tx: Tx, pool: str, now: datetime) -> tuple[DeadlineJob, ...]:
    """Return the experiments with a deadline that wait or run in a pool."""
    query = {"pool": pool, "now": now}
    rows = [row for row in tx.execute(_JOBS_OF_POOL, query) if row.allocations]
    if not rows:
        return ()
    usual_h = startup_h(tx, pool)
    return tuple(_job(row, usual_h) for row in rows)


def watched_jobs(
    tx: Tx, rented: Sequence[str], now: datetime, interval: timedelta
) -> tuple[DeadlineJob, ...]:
    """Return the experiments without decisions of the provisioner, if their last look is older than an interval.

    They are paused, or in a pool that is not `rented`."""
    query = {"rented": list(rented), "now": now, "before": now - interval}
    return tuple(_job(row, LEAST_STARTUP_H) for row in tx.execute(_WATCHED_JOBS, query))


def next_watches(
    tx: Tx, rented: Sequence[str], now: datetime, interval: timedelta
) -> dict[bool, datetime]:
    """Return when `watched_jobs` has experiments again, by whether they are paused."""
    query = {"rented": list(rented), "now": now, "interval": interval}
    return {row.is_paused: row.due for row in tx.execute(_NEXT_WATCHES, query)}


def _job(row: Any, usual_h: float) -> DeadlineJob:
    queued = tuple(id for id, *_, is_queued in row.allocations if is_queued)
    runs = tuple(DeadlineRun(*values) for *values, is_queued in row.allocations if not is_queued)
    return DeadlineJob(
        row.job_id, row.experiment_id, row.deadline.timestamp(), row.slots, row.single_agent, row.progress,
        row.run_s / 3600, row.expected_h, row.unsaved_s / 3600, usual_h, queued, runs,
        DeadlineState(row.state),
    )  # fmt: skip


def store(tx: Tx, decisions: Sequence[DeadlineDecision], now: datetime) -> set[str]:
    """Store decisions. Return the pools with allocations that may use other machines than before."""
    for decision in decisions:
        row = update(schema.deadlines).where(_d.experiment_id == decision.experiment_id)
        end_at = decision.end_at and datetime.fromtimestamp(decision.end_at, now.tzinfo)
        values = {
            "sentence": decision.sentence, "way": decision.way and decision.way.value,
            "state": decision.state.value, "end_at": end_at, "probability": decision.probability,
        }  # fmt: skip
        tx.execute(row.values(**values, decided_at=now))
    rows = [
        {"id": id, "capacity": decision.capacity or None}
        for decision in decisions
        for id in decision.queued
    ]
    return set(tx.execute(_ALLOW, {"rows": as_json(rows)}).scalars()) if rows else set()
