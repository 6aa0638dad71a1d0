"""Replicas of trials in the memory of agents: which agents still need them, and the runs that start from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from det_controlplane.db.engine.database import Database, Tx, as_json

# A waiting run may be placed on any agent. A run with containers reads the replicas of its own agents only.
_UNNEEDED = text("""
    SELECT r.task_id FROM unnest(cast(:tasks AS text[])) AS r (task_id) WHERE NOT EXISTS (
        SELECT FROM allocations a LEFT JOIN containers c ON c.allocation_id = a.id AND c.epoch = a.epoch
        WHERE a.task_id = r.task_id AND a.trial_id IS NOT NULL AND a.state <> 'TERMINATED'
            AND (c.id IS NULL OR c.agent_id = :agent_id))
""")
_LOST_REPORT = text("""
    SELECT r.key, r.value::integer FROM allocations a CROSS JOIN jsonb_each_text(cast(:reported AS jsonb)) AS r
    WHERE a.id = :id AND NOT EXISTS (
        SELECT FROM metrics m WHERE m.trial_id = a.trial_id AND m.metric_group = r.key
            AND m.total_batches = r.value::integer AND NOT m.archived)
    ORDER BY r.key LIMIT 1
""")
_START_FROM = text("""
    UPDATE allocations SET start_steps = :steps
    WHERE id = :id AND trial_id IS NOT NULL AND state <> 'TERMINATED' AND start_steps <= :steps
""")


@dataclass(frozen=True, slots=True)
class LostReport:
    group: str
    steps: int


def unneeded(db: Database, agent_id: str, task_ids: Sequence[str]) -> list[str]:
    """Return the tasks with replicas on an agent that no run will read."""
    rows = db.read(_UNNEEDED, {"tasks": list(task_ids), "agent_id": agent_id})
    return [row.task_id for row in rows]


def lost_report(tx: Tx, allocation_id: str, reported: Mapping[str, int]) -> LostReport | None:
    """Return one of the reports, by group and step, that is not stored for the allocation's trial."""
    row = tx.execute(_LOST_REPORT, {"id": allocation_id, "reported": as_json(reported)}).first()
    return None if row is None else LostReport(*row)


def start_from(tx: Tx, allocation_id: str, steps: int) -> bool:
    """Set a later start of a run than its checkpoint. Reports of earlier runs then count up to this step."""
    return tx.execute(_START_FROM, {"id": allocation_id, "steps": steps}).rowcount == 1
