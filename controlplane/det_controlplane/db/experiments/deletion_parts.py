"""Delete an experiment in parts: no statement deletes more rows than PART_ROWS, however large the experiment is."""

from sqlalchemy import text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import usage

# PostgreSQL deletes this many metrics in about half a second. A search may have ten million of them.
PART_ROWS = 20_000
_PART_TRIALS = 100
_DELETING = text("SELECT 1 FROM experiments WHERE id = :id AND state = 'DELETING' FOR UPDATE")
_NEXT_TRIALS = text("""
    SELECT t.id, array(SELECT k.id FROM tasks k WHERE k.trial_id = t.id) AS tasks
    FROM trials t WHERE t.experiment_id = :id ORDER BY t.id LIMIT :trials
""")
_SOME = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {which} LIMIT :rows))
"""
# Tables with many rows for each trial. PostgreSQL deletes the rows of the other tables with the trials.
_OF_TRIALS = [
    text(_SOME.format(table=table, which="trial_id = ANY(cast(:trials AS integer[]))"))
    for table in ("metrics", "run_values", "checkpoints")
]
_OF_TASKS = text(_SOME.format(table="task_logs", which="task_id = ANY(cast(:tasks AS text[]))"))
# The rest of an experiment without trials: tasks that deleted files have logs.
_OF_EXPERIMENT = [
    text(_SOME.format(table=table, which=which))
    for table, which in (
        ("search_events", "experiment_id = :id"),
        ("checkpoints", "experiment_id = :id"),
        ("task_logs", "task_id IN (SELECT id FROM tasks WHERE experiment_id = :id)"),
    )
]
_SPANS_OF_TASKS = text("DELETE FROM task_log_spans WHERE task_id = ANY(cast(:tasks AS text[]))")
_SESSIONS_OF_TASKS = text("""
    DELETE FROM sessions WHERE allocation_id IN (
        SELECT id FROM allocations WHERE task_id = ANY(cast(:tasks AS text[])))
""")
_TRIALS = text("DELETE FROM trials WHERE id = ANY(cast(:trials AS integer[]))")

_OWN = text("""
    SELECT e.context_id, array(SELECT k.job_id FROM tasks k WHERE k.experiment_id = e.id) || e.job_id AS jobs
    FROM experiments e WHERE e.id = :id AND e.state = 'DELETING' FOR UPDATE
""")
# Lines that were added after the last part.
_LOGS = text(
    "DELETE FROM task_logs WHERE task_id IN (SELECT id FROM tasks WHERE experiment_id = :id)"
)
_LOG_SPANS = text(
    "DELETE FROM task_log_spans WHERE task_id IN (SELECT id FROM tasks WHERE experiment_id = :id)"
)
_SESSIONS = text("""
    DELETE FROM sessions WHERE allocation_id IN (
        SELECT a.id FROM allocations a JOIN tasks k ON k.id = a.task_id WHERE k.experiment_id = :id)
""")
_EXPERIMENT = text("DELETE FROM experiments WHERE id = :id")
_JOBS = text("DELETE FROM jobs WHERE id = ANY(cast(:jobs AS uuid[]))")
# A fork shares the context of its parent.
_CONTEXT = text("""
    DELETE FROM contexts c WHERE c.id = :id AND NOT EXISTS (SELECT 1 FROM experiments e WHERE e.context_id = c.id)
        AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.context_id = c.id)
    RETURNING c.object_key
""")


def delete_part(tx: Tx, experiment_id: int) -> int:
    """Delete some rows of an experiment that is being deleted, and return how many.

    Zero means that `delete_experiment` can delete the rest, or that the experiment is not being deleted."""
    if tx.execute(_DELETING, {"id": experiment_id}).first() is None:
        return 0
    trials = tx.execute(_NEXT_TRIALS, {"id": experiment_id, "trials": _PART_TRIALS}).all()
    if trials:
        return _delete_of_trials(tx, [t.id for t in trials], [id for t in trials for id in t.tasks])
    for statement in _OF_EXPERIMENT:
        count = tx.execute(statement, {"id": experiment_id, "rows": PART_ROWS}).rowcount
        if count:
            return count
    return 0


def _delete_of_trials(tx: Tx, trials: list[int], tasks: list[str]) -> int:
    """Delete some rows of trials or, if they have no more rows in the large tables, the trials."""
    for statement in (*_OF_TRIALS, _OF_TASKS):
        ids = {"tasks": tasks} if statement is _OF_TASKS else {"trials": trials}
        count = tx.execute(statement, {**ids, "rows": PART_ROWS}).rowcount
        if count:
            return count
    usage.keep_of_tasks(tx, tasks)
    for statement in (_SPANS_OF_TASKS, _SESSIONS_OF_TASKS):
        tx.execute(statement, {"tasks": tasks})
    return tx.execute(_TRIALS, {"trials": trials}).rowcount


def delete_experiment(tx: Tx, experiment_id: int) -> str | None:
    """Delete an experiment without trials. Return the key of an object that is no longer referenced, or None."""
    own = tx.execute(_OWN, {"id": experiment_id}).first()
    if own is None:
        return None
    usage.keep_of_experiment(tx, experiment_id)
    for statement in (_LOGS, _LOG_SPANS, _SESSIONS, _EXPERIMENT):
        tx.execute(statement, {"id": experiment_id})
    tx.execute(_JOBS, {"jobs": own.jobs})
    key: str | None = tx.execute(_CONTEXT, {"id": own.context_id}).scalar()
    return key
