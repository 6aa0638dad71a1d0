"""Read the numbers of the Prometheus gauges."""

from typing import Any

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


def containers(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _CONTAINERS)


def gpus(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _GPUS)


def labels(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _LABELS)


def agents(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _AGENTS)


def slots(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _SLOTS)


def queued(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _QUEUED)


def machines(tx: Tx) -> list[dict[str, Any]]:
    return _dicts(tx, _MACHINES)


def _dicts(tx: Tx, statement: Any) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in tx.execute(statement).all()]
