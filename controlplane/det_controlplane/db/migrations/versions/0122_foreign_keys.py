"""Add foreign keys that were missing, and the indexes that deletions need.

Metrics had no index that covers all rows of a trial: to delete one read the whole table."""

import sqlalchemy as sa
from alembic import op

revision = "0122"
down_revision = "0121"

# Nothing keeps what no longer is there: a task shows no project, and a checkpoint is in the storage of its experiment.
_LOST = """
    UPDATE {table} SET {column} = NULL
    WHERE {column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {other} o WHERE o.id = {column})
"""


def upgrade() -> None:
    parents = sa.text("parent_id IS NOT NULL")
    op.create_index("experiments_by_parent", "experiments", ["parent_id"], postgresql_where=parents)

    op.execute(_LOST.format(table="tasks", column="project_id", other="projects"))
    name = op.f("tasks_project_id_fkey")
    op.create_foreign_key(name, "tasks", "projects", ["project_id"], ["id"], ondelete="SET NULL")
    placed = sa.text("project_id IS NOT NULL")
    op.create_index("tasks_by_project", "tasks", ["project_id"], postgresql_where=placed)

    op.execute(_LOST.format(table="checkpoints", column="storage_id", other="storages"))
    name = op.f("checkpoints_storage_id_fkey")
    op.create_foreign_key(name, "checkpoints", "storages", ["storage_id"], ["id"])

    name = op.f("interruptions_instance_id_fkey")
    op.create_foreign_key(name, "interruptions", "instances", ["instance_id"], ["id"])

    # Last, as reports of metrics wait for it.
    op.create_index("metrics_by_trial", "metrics", ["trial_id"])
