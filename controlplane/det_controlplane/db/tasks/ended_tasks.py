"""Delete tasks of no experiment that ended long ago, with the rows that were only theirs."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import log_windows
from det_controlplane.db.money import usage

# Tasks that ended before a time also began before it, so the index of kinds finds them. Parents of live children stay,
# and tasks with checkpoints, which would be deleted too. Tasks that are being forked are locked.
_PAST = text("""
    SELECT k.id FROM tasks k
    WHERE k.trial_id IS NULL AND k.kind IN ('COMMAND', 'NOTEBOOK', 'SHELL', 'TENSORBOARD', 'GENERIC')
      AND k.started_at < :before AND k.ended_at < :before
      AND NOT EXISTS (SELECT 1 FROM tasks c WHERE c.parent_id = k.id AND c.ended_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.task_id = k.id)
      AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.task_id = k.id AND a.state <> 'TERMINATED')
    ORDER BY k.started_at, k.id LIMIT :most FOR UPDATE OF k SKIP LOCKED
""")
_LOGS = text("""
    DELETE FROM task_logs WHERE id = ANY(ARRAY(SELECT id FROM task_logs WHERE task_id = ANY(cast(:ids AS text[])) LIMIT :most))
""")
_SESSIONS = text("""
    DELETE FROM sessions WHERE allocation_id IN (SELECT id FROM allocations WHERE task_id = ANY(cast(:ids AS text[])))
""")
_TASKS = text("DELETE FROM tasks WHERE id = ANY(cast(:ids AS text[])) RETURNING job_id, context_id")
_JOBS = text("""
    DELETE FROM jobs j WHERE j.id = ANY(cast(:jobs AS uuid[])) AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.job_id = j.id)
        AND NOT EXISTS (SELECT 1 FROM experiments e WHERE e.job_id = j.id)
""")
# Forks and children share the model definition of another task.
_CONTEXTS = text("""
    DELETE FROM contexts c WHERE c.id = ANY(cast(:contexts AS uuid[]))
        AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.context_id = c.id)
        AND NOT EXISTS (SELECT 1 FROM experiments e WHERE e.context_id = c.id)
    RETURNING c.object_key
""")


def past(tx: Tx, before: datetime, most: int) -> list[str]:
    """Return tasks that ended before a time, and lock them."""
    return list(tx.execute(_PAST, {"before": before, "most": most}).scalars())


def delete_logs(tx: Tx, ids: Sequence[str], most: int) -> int:
    """Delete so many lines of some tasks at most; return how many went."""
    return tx.execute(_LOGS, {"ids": list(ids), "most": most}).rowcount


def delete(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Delete tasks and keep their usage and costs. Return the keys of objects that are no longer referenced."""
    usage.keep_of_tasks(tx, ids)
    log_windows.forget_spans(tx, list(ids))
    tx.execute(_SESSIONS, {"ids": list(ids)})
    rows = tx.execute(_TASKS, {"ids": list(ids)}).all()
    tx.execute(_JOBS, {"jobs": [row.job_id for row in rows]})
    contexts = [row.context_id for row in rows if row.context_id is not None]
    keys = tx.execute(_CONTEXTS, {"contexts": contexts}).scalars()
    return [key for key in keys if key is not None]
