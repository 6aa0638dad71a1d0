"""Know between which times the lines of a task lie, by spans of ids."""

import sqlalchemy as sa
from alembic import op

revision = "0119"
down_revision = "0118"

# What a new row covers are whole minutes: the next batches find themselves covered. A row that another transaction
# adds at the same time is not seen, and not waited for: two rows may cover the same.
_COVERED = """
    INSERT INTO task_log_spans (task_id, span, first_at, last_at)
    SELECT n.task_id, n.span, date_trunc('minute', n.first_at), date_trunc('minute', n.last_at) + interval '1 minute'
    FROM (SELECT task_id, id >> 16 AS span, min(logged_at) AS first_at, max(logged_at) AS last_at
          FROM {lines} GROUP BY task_id, id >> 16) n
    WHERE NOT EXISTS (SELECT 1 FROM task_log_spans s WHERE s.task_id = n.task_id AND s.span = n.span
                      AND s.first_at <= n.first_at AND s.last_at >= n.last_at)
"""
_COVER = f"""
    CREATE FUNCTION cover_task_logs() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        {_COVERED.format(lines="stored")};
        RETURN NULL;
    END $$
"""
# Lines of the last spans may have been written before, and committed after, the first look.
_LATE = "task_logs WHERE id >= (SELECT (coalesce(max(span), 0) - 2) << 16 FROM task_log_spans)"


def upgrade() -> None:
    op.create_table(
        "task_log_spans",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("span", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("task_log_spans_of_task", "task_log_spans", ["task_id", "span"])
    op.execute(_COVER)
    op.execute(_COVERED.format(lines="task_logs"))
    # From here on lines wait to be written, until this revision ends: what came meanwhile is little.
    op.execute(
        "CREATE TRIGGER task_logs_are_covered AFTER INSERT ON task_logs REFERENCING NEW TABLE AS stored"
        " FOR EACH STATEMENT EXECUTE FUNCTION cover_task_logs()"
    )
    op.execute(_COVERED.format(lines=_LATE))
