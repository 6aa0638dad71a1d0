"""Fill the states of earlier work, and create the indexes of the list of all work."""

import sqlalchemy as sa
from det_controlplane.db.engine import online

revision = "0021"
down_revision = "0020"
outside_transaction = True

_AT_ONCE = 5_000
# An ended task has the outcome of its last run (core/lifecycle/task.py).
_EXPERIMENTS = f"""
    UPDATE jobs j SET name = e.name, work_state = e.state::text, work_ended_at = e.ended_at, work_archived = e.archived
    FROM experiments e WHERE e.job_id = j.id AND j.id IN (
        SELECT x.id FROM jobs x JOIN experiments y ON y.job_id = x.id
        WHERE x.work_state IS NULL ORDER BY x.id LIMIT {_AT_ONCE} FOR NO KEY UPDATE OF x)
"""
_TASKS = f"""
    UPDATE jobs j SET work_ended_at = k.ended_at, work_state = coalesce(k.state::text,
        CASE WHEN k.ended_at IS NULL THEN 'ACTIVE' ELSE (
            SELECT CASE WHEN a.exit_kind = 'clean' THEN 'COMPLETED'
                WHEN a.exit_kind IN ('failed', 'infrastructure') THEN 'ERROR' ELSE 'CANCELED' END
            FROM allocations a WHERE a.task_id = k.id ORDER BY a.run_id DESC LIMIT 1) END, 'COMPLETED')
    FROM tasks k WHERE k.job_id = j.id AND k.trial_id IS NULL AND k.kind NOT IN ('TRIAL', 'CHECKPOINT_GC') AND j.id IN (
        SELECT x.id FROM jobs x JOIN tasks y ON y.job_id = x.id
        WHERE x.work_state IS NULL AND y.trial_id IS NULL AND y.kind NOT IN ('TRIAL', 'CHECKPOINT_GC')
        ORDER BY x.id LIMIT {_AT_ONCE} FOR NO KEY UPDATE OF x)
"""


def upgrade() -> None:
    online.repeat(_EXPERIMENTS)
    online.repeat(_TASKS)
    where = sa.text("work_state IS NOT NULL")
    shown = ["kind", "work_state", "work_archived", "user_id", "workspace_id", "pool"]
    online.create_index(
        "jobs_of_work",
        "jobs",
        ["submitted_at", "id"],
        postgresql_include=shown,
        postgresql_where=where,
    )
    ends = [sa.text("work_ended_at DESC NULLS LAST"), sa.text("submitted_at DESC")]
    online.create_index("jobs_by_work_end", "jobs", ends, postgresql_where=where)
    online.create_index(
        "jobs_by_work_name", "jobs", ["name", "submitted_at"], postgresql_where=where
    )
    online.create_trigram_index("jobs_by_lowered_name", "jobs", "name")
