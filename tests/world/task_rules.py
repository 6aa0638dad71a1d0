"""State the invariants of commands, notebooks and generic tasks: each query lists the rows that break one."""

TASK_RULES: dict[str, str] = {
    "a task that has ended holds slots": """
        SELECT k.id || ': ' || a.id FROM tasks k JOIN allocations a ON a.task_id = k.id
        WHERE k.ended_at IS NOT NULL AND a.state <> 'TERMINATED'""",
    "a task that should run has no live allocation": """
        SELECT k.kind || ' ' || k.id || coalesce(' is ' || k.state::text, '') FROM tasks k
        WHERE k.trial_id IS NULL AND k.ended_at IS NULL AND k.state IS DISTINCT FROM 'PAUSED'
        AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.task_id = k.id AND a.state <> 'TERMINATED')""",
    "a generic task is over and has not ended, or the reverse": """
        SELECT k.id || ' is ' || k.state FROM tasks k WHERE k.state IS NOT NULL
        AND (k.state IN ('COMPLETED', 'CANCELED', 'ERROR')) <> (k.ended_at IS NOT NULL)""",
    "a paused task has a live allocation": """
        SELECT k.id || ': ' || a.id FROM tasks k JOIN allocations a ON a.task_id = k.id
        WHERE k.state = 'PAUSED' AND a.state <> 'TERMINATED'""",
    "a task was killed, and its program is not told": """
        SELECT k.id || ': ' || a.id FROM tasks k JOIN allocations a ON a.task_id = k.id
        WHERE k.state = 'STOPPING_CANCELED' AND a.state <> 'TERMINATED' AND NOT a.killed""",
    "a task is to pause, and its program is not asked": """
        SELECT k.id || ': ' || a.id FROM tasks k JOIN allocations a ON a.task_id = k.id
        WHERE k.state = 'STOPPING_PAUSED' AND a.state <> 'TERMINATED' AND a.preempt_at IS NULL AND NOT a.killed""",
    "a command that had run was started again": """
        SELECT k.id || ': ' || b.id FROM tasks k JOIN allocations a ON a.task_id = k.id JOIN allocations b
        ON b.task_id = k.id AND b.run_id > a.run_id WHERE k.kind = 'COMMAND' AND a.started_at IS NOT NULL""",
    "a task that was done was started again": """
        SELECT k.id || ': ' || b.id FROM tasks k JOIN allocations a ON a.task_id = k.id JOIN allocations b
        ON b.task_id = k.id AND b.run_id > a.run_id WHERE k.kind = 'GENERIC' AND a.exit_kind = 'clean'""",
    "one launch made two tasks": """
        SELECT j.name FROM tasks k JOIN jobs j ON j.id = k.job_id WHERE k.kind IN ('COMMAND', 'NOTEBOOK', 'GENERIC')
        GROUP BY j.name HAVING count(*) > 1""",
    "a task that was canceled was started again": """
        SELECT k.id || ': ' || a.id FROM tasks k JOIN allocations a ON a.task_id = k.id
        WHERE k.state = 'CANCELED' AND a.requested_at > k.ended_at""",
}

# Descendants of a killed task have ended or are ending.
BELOW_KILLED = """
    WITH RECURSIVE down AS (
        SELECT id, state FROM tasks WHERE id = ANY(:killed)
        UNION SELECT t.id, t.state FROM tasks t JOIN down d ON t.parent_id = d.id)
    SELECT id || ' is ' || state AS what FROM down WHERE state IN ('ACTIVE', 'STOPPING_PAUSED', 'PAUSED')"""

# Notebooks that ended because they were idle.
IDLE_KILLED = """
    SELECT a.id, k.id AS task_id, k.idle_timeout_s FROM allocations a JOIN tasks k ON k.id = a.task_id
    WHERE k.kind = 'NOTEBOOK' AND a.killed AND a.preempt_reason LIKE 'nobody used it%'"""
