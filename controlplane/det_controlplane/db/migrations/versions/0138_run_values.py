"""Keep the hyperparameters and metrics of ended trials in an indexed table: filters and sorts read every trial before."""

import sqlalchemy as sa
from alembic import op

revision = "0138"
down_revision = "0137"

# The names are the ones of columns in tables of runs. Keys with dots, and groups of metrics with names of other columns,
# have no column.
_VALUES = """
    CREATE FUNCTION values_of_run(hparams jsonb, summaries jsonb) RETURNS TABLE (name text, value jsonb)
    LANGUAGE sql IMMUTABLE AS $$
        WITH RECURSIVE leaf (path, value) AS (
            SELECT ARRAY[h.key], h.value
            FROM jsonb_each(CASE WHEN jsonb_typeof(hparams) = 'object' THEN hparams ELSE '{}'::jsonb END) h (key, value)
            UNION ALL SELECT leaf.path || h.key, h.value FROM leaf,
                jsonb_each(CASE WHEN jsonb_typeof(leaf.value) = 'object' THEN leaf.value ELSE '{}'::jsonb END) h (key, value))
        SELECT 'hp.' || array_to_string(leaf.path, '.'), leaf.value FROM leaf
        WHERE jsonb_typeof(leaf.value) NOT IN ('object', 'null')
            AND NOT EXISTS (SELECT FROM unnest(leaf.path) key WHERE strpos(key, '.') > 0)
        UNION ALL
        SELECT concat(CASE g.key WHEN 'avg_metrics' THEN 'training' WHEN 'validation_metrics' THEN 'validation'
                          ELSE g.key END, '.', m.key, '.', s.key), s.value
        FROM jsonb_each(summaries) g (key, value),
            jsonb_each(CASE WHEN jsonb_typeof(g.value) = 'object' THEN g.value ELSE '{}'::jsonb END) m (key, value),
            jsonb_each(CASE WHEN jsonb_typeof(m.value) = 'object' THEN m.value ELSE '{}'::jsonb END) s (key, value)
        WHERE s.key IN ('last', 'min', 'max', 'mean') AND jsonb_typeof(s.value) <> 'null'
            AND g.key NOT IN ('hp', 'training', 'validation') AND strpos(g.key, '.') = 0
    $$"""
# Reports of a trial that has not ended read the first condition only.
_FORGET = """
    CREATE FUNCTION forget_values_of_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM run_values WHERE trial_id = NEW.id;
        NEW.has_values := NULL;
        RETURN NEW;
    END $$"""
_CHANGES = """OLD.has_values IS NOT NULL AND (NEW.ended_at IS NULL
    OR NEW.summary_metrics IS DISTINCT FROM OLD.summary_metrics OR NEW.hparams::text IS DISTINCT FROM OLD.hparams::text)"""


def upgrade() -> None:
    op.create_table(
        "value_names",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
    )
    op.create_table(
        "run_values",
        sa.Column(
            "trial_id",
            sa.Integer(),
            sa.ForeignKey("trials.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("name_id", sa.Integer(), primary_key=True),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Double()),
        sa.Column("text", sa.Text()),
    )
    for column in ("number", "text"):
        op.create_index(
            f"run_values_by_{column}",
            "run_values",
            ["name_id", column, "trial_id"],
            postgresql_include=["experiment_id"],
            postgresql_where=sa.text(f"{column} IS NOT NULL"),
        )
    op.add_column("trials", sa.Column("has_values", sa.Boolean()))
    op.drop_index("experiments_listed", "experiments")  # the next revision creates a wider one
    op.execute(_VALUES)
    op.execute(_FORGET)
    op.execute(
        "CREATE TRIGGER trials_forget_values BEFORE UPDATE OF ended_at, summary_metrics, hparams ON trials FOR EACH ROW"
        f" WHEN ({_CHANGES}) EXECUTE FUNCTION forget_values_of_run()"
    )
