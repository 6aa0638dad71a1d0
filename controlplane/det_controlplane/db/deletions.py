"""Removing an experiment with everything that was only its own."""

from sqlalchemy import text

from det_controlplane.db.engine import Tx

_OWN = text("""
    SELECT e.context_id, array(SELECT k.job_id FROM tasks k WHERE k.experiment_id = e.id) || e.job_id AS jobs
    FROM experiments e WHERE e.id = :id AND e.state = 'DELETING' FOR UPDATE
""")
_LOGS = text(
    "DELETE FROM task_logs WHERE task_id IN (SELECT id FROM tasks WHERE experiment_id = :id)"
)
_SESSIONS = text("""
    DELETE FROM sessions WHERE allocation_id IN (
        SELECT a.id FROM allocations a JOIN tasks k ON k.id = a.task_id WHERE k.experiment_id = :id)
""")
_EXPERIMENT = text("DELETE FROM experiments WHERE id = :id")
_JOBS = text("DELETE FROM jobs WHERE id = ANY(cast(:jobs AS uuid[]))")
# Forks share their parent's.
_CONTEXT = text("""
    DELETE FROM contexts c WHERE c.id = :id AND NOT EXISTS (SELECT 1 FROM experiments e WHERE e.context_id = c.id)
        AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.context_id = c.id)
    RETURNING c.object_key
""")


def delete_experiment(tx: Tx, experiment_id: int) -> str | None:
    """The key of an object that nothing refers to any more, if there is one."""
    own = tx.execute(_OWN, {"id": experiment_id}).first()
    if own is None:
        return None
    for statement in (_LOGS, _SESSIONS, _EXPERIMENT):
        tx.execute(statement, {"id": experiment_id})
    tx.execute(_JOBS, {"jobs": own.jobs})
    key: str | None = tx.execute(_CONTEXT, {"id": own.context_id}).scalar()
    return key
