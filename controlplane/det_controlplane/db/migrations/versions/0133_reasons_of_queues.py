"""Store each reason of a queue once, and mark the jobs in queues, so that the place of one is counted in an index."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0133"
down_revision = "0132"

# Only the first allocation of a job that enters a queue changes the job's row.
_ENTER = """
    CREATE FUNCTION mark_jobs_in_queue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE jobs SET in_queue = true WHERE NOT in_queue AND id IN (
            SELECT job_id FROM added WHERE state = 'QUEUED' AND not_before IS NULL);
        RETURN NULL;
    END $$"""


def upgrade() -> None:
    op.create_table(
        "wait_reasons",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("code", postgresql.ENUM(name="wait_code", create_type=False), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
    )
    op.create_index("wait_reasons_by_pool", "wait_reasons", ["pool"])
    op.add_column("allocations", sa.Column("wait_reason_id", sa.BigInteger()))
    op.add_column(
        "jobs",
        sa.Column("in_queue", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    op.create_index(
        "jobs_in_queue",
        "jobs",
        ["pool", "priority", "position", "id"],
        postgresql_where=sa.text("in_queue"),
    )
    op.create_index(
        "trials_with_blocked_agents",
        "trials",
        ["id"],
        postgresql_where=sa.text("blocked_agents <> '{}' AND ended_at IS NULL"),
    )
    op.execute(_ENTER)
    op.execute(
        "CREATE TRIGGER allocations_mark_jobs AFTER INSERT ON allocations REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION mark_jobs_in_queue()"
    )
    op.execute(
        "UPDATE jobs SET in_queue = true WHERE id IN ("
        "SELECT job_id FROM allocations WHERE state <> 'TERMINATED')"
    )
