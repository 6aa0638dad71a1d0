"""Index the trials whose values are not in the table of values yet, and the columns that counts of experiments read."""

import sqlalchemy as sa
from det_controlplane.db.engine import online

revision = "0139"
down_revision = "0138"
outside_transaction = True


def upgrade() -> None:
    online.create_index(
        "trials_without_values",
        "trials",
        ["experiment_id", "id"],
        postgresql_where=sa.text("has_values IS NOT TRUE"),
    )
    online.create_index(
        "trials_awaiting_values",
        "trials",
        ["id"],
        postgresql_where=sa.text("has_values IS NULL AND ended_at IS NOT NULL"),
    )
    # Counts join jobs, and PostgreSQL reads an index alone only if it has the column of the join.
    online.create_index(
        "experiments_counted",
        "experiments",
        ["id"],
        postgresql_include=["archived", "project_id", "user_id", "state", "job_id"],
    )
