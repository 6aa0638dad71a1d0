"""Keep the metric names of each experiment, which are bounded, and count reports with names that were refused.

Experiments that are there keep their most used names. Their trials keep all names that they have in their summaries."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0125"
down_revision = "0124"

_FILL = """
    WITH used AS (
        SELECT t.experiment_id, n.key AS name, count(*) AS trials,
            CASE g.key WHEN 'avg_metrics' THEN 'training' WHEN 'validation_metrics' THEN 'validation' ELSE g.key END AS metric_group,
            CASE WHEN count(DISTINCT n.value->>'type') > 1 THEN 'string' ELSE coalesce(min(n.value->>'type'), 'string') END AS type
        FROM trials t, jsonb_each(t.summary_metrics) g, jsonb_each(g.value) n GROUP BY t.experiment_id, g.key, n.key),
    placed AS (
        SELECT *, row_number() OVER w AS place,
            sum(octet_length(metric_group) + octet_length(name)) OVER w AS bytes
        FROM used WINDOW w AS (PARTITION BY experiment_id ORDER BY trials DESC, metric_group, name)),
    grouped AS (
        SELECT experiment_id, metric_group, jsonb_object_agg(name, type) AS names
        FROM placed WHERE place <= 2000 AND bytes <= 262144 GROUP BY experiment_id, metric_group)
    INSERT INTO metric_names (experiment_id, names)
    SELECT experiment_id, jsonb_object_agg(metric_group, names) FROM grouped GROUP BY experiment_id
"""


def upgrade() -> None:
    op.create_table(
        "metric_names",
        sa.Column(
            "experiment_id",
            sa.Integer(),
            sa.ForeignKey("experiments.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("names", JSONB(), server_default=sa.text("'{}'"), nullable=False),
    )
    op.create_table(
        "refused_metrics",
        sa.Column(
            "trial_id",
            sa.Integer(),
            sa.ForeignKey("trials.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("reports", sa.BigInteger(), nullable=False),
    )
    op.execute(_FILL)
