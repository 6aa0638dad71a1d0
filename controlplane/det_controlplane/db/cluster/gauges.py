"""Read the numbers of the Prometheus gauges."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text

from det_controlplane.db.engine.database import Tx

_CONTAINERS = text("""
    SELECT c.id::text AS container_id, coalesce(c.runtime_id, '') AS container_runtime_id, a.id AS allocation_id,
           a.task_id, a.job_id::text AS job_id, k.experiment_id
    FROM containers c JOIN allocations a ON a.id = c.allocation_id JOIN tasks k ON k.id = a.task_id
    WHERE c.state <> 'TERMINATED' ORDER BY c.id
""")
_GPUS = text("""
    SELECT device_uuid AS gpu_uuid, container_id::text AS container_id FROM slots
    WHERE container_id IS NOT NULL AND device_uuid <> '' ORDER BY agent_id, slot_id
""")
_LABELS = text("""
    SELECT e.id AS experiment_id, label FROM experiments e CROSS JOIN LATERAL unnest(e.labels) AS label
    WHERE EXISTS (SELECT FROM allocations a JOIN tasks k ON k.id = a.task_id
                  WHERE k.experiment_id = e.id AND a.state <> 'TERMINATED') ORDER BY 1, 2
""")
_AGENTS = text("""
    SELECT g.id, g.pool, g.hostname, g.addresses FROM agents g WHERE g.state = 'JOINED' ORDER BY g.id
""")
_SLOTS = text("""
    SELECT g.pool, count(*) AS slots, count(s.container_id) AS used
    FROM agents g JOIN slots s ON s.agent_id = g.id WHERE g.state = 'JOINED' GROUP BY g.pool ORDER BY g.pool
""")
_QUEUED = text("""
    SELECT pool, count(*) AS allocations, sum(slots) AS slots FROM allocations WHERE state = 'QUEUED'
    GROUP BY pool ORDER BY pool
""")
_MACHINES = text("""
    SELECT pool, provider, region, capacity::text AS capacity, state::text AS state, count(*) AS machines,
           sum(CASE WHEN launched_at IS NULL THEN 0 ELSE price_usd_hour END) AS usd_hour
    FROM instances WHERE state NOT IN ('GONE', 'FAILED') GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
""")

_STATES_OF_AGENTS = text("""
    SELECT pool, state::text AS state, count(*) AS agents FROM agents WHERE state <> 'LOST' GROUP BY 1, 2 ORDER BY 1, 2
""")
_ALLOCATIONS = text("""
    SELECT pool, count(*) FILTER (WHERE state <> 'QUEUED') AS running,
           max(extract(epoch FROM cast(:now AS timestamptz) - requested_at)) FILTER (WHERE state = 'QUEUED') AS oldest_s
    FROM allocations WHERE state <> 'TERMINATED' GROUP BY pool ORDER BY pool
""")
_AGES_OF_MACHINES = text("""
    SELECT pool, provider, state::text AS state, max(extract(epoch FROM cast(:now AS timestamptz) - CASE state
        WHEN 'LAUNCHED' THEN launched_at WHEN 'REGISTERED' THEN registered_at WHEN 'DRAINING' THEN draining_since
        WHEN 'TERMINATING' THEN terminating_since ELSE requested_at END)) AS oldest_s
    FROM instances WHERE state NOT IN ('GONE', 'FAILED') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
""")
_UNJOINED = text("""
    SELECT pool, count(*) AS machines FROM instances
    WHERE launched_at IS NOT NULL AND registered_at IS NULL AND ended_at > cast(:now AS timestamptz) - interval '1 hour'
    GROUP BY pool ORDER BY pool
""")
_TICKS = text("""
    SELECT extract(epoch FROM cast(:now AS timestamptz) - c.ticked_at) AS age_s,
           EXISTS (SELECT FROM allocations WHERE state <> 'TERMINATED')
               OR EXISTS (SELECT FROM instances WHERE state NOT IN ('GONE', 'FAILED')) AS are_due,
           (SELECT extract(epoch FROM cast(:now AS timestamptz) - min(due_at)) FROM outbox) AS overdue_s
    FROM cluster c
""")
_RECORDS = text("""
    SELECT (SELECT count(*) FROM experiments) AS experiments,
           (SELECT count(*) FROM checkpoints WHERE state <> 'DELETED') AS checkpoints,
           (SELECT count(*) FROM users) AS users
""")
_LOG_LINES = text("""
    SELECT level, count(*) AS lines FROM master_logs
    WHERE logged_at > cast(:now AS timestamptz) - interval '5 minutes' AND level IN ('WARNING', 'ERROR', 'CRITICAL')
    GROUP BY level
""")


class Ticks(NamedTuple):
    age_s: float | None  # since the last tick; None before the first
    are_due: bool  # work or machines need them
    overdue_s: float | None  # of the effect that is due first; negative if it is due later


def containers(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _CONTAINERS)


def gpus(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _GPUS)


def labels(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _LABELS)


def records(tx: Tx) -> dict[str, int]:
    """Return the numbers of experiments, checkpoints that are not deleted, and users."""
    return dict(tx.execute(_RECORDS).one()._mapping)


def agents(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _AGENTS)


def slots(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _SLOTS)


def queued(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _QUEUED)


def machines(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _MACHINES)


def states_of_agents(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _STATES_OF_AGENTS)


def allocations(tx: Tx, now: datetime) -> list[dict[str, Any]]:
    return _dicts(tx, _ALLOCATIONS, now)


def ages_of_machines(tx: Tx, now: datetime) -> list[dict[str, Any]]:
    return _dicts(tx, _AGES_OF_MACHINES, now)


def unjoined(tx: Tx, now: datetime) -> list[dict[str, Any]]:
    """Count the machines that ended within the last hour and had never joined."""
    return _dicts(tx, _UNJOINED, now)


def ticks(tx: Tx, now: datetime) -> Ticks:
    row = tx.execute(_TICKS, {"now": now}).first()
    return Ticks(None, False, None) if row is None else Ticks(*row)


def log_lines(tx: Tx, now: datetime) -> dict[str, int]:
    """Count the warnings and errors of the last five minutes by level."""
    return {row.level: row.lines for row in tx.execute(_LOG_LINES, {"now": now})}


def _dicts(tx: Tx, statement: Any, now: datetime | None = None) -> list[dict[str, Any]]:
    params = {} if now is None else {"now": now}
    return [dict(row._mapping) for row in tx.execute(statement, params).all()]
