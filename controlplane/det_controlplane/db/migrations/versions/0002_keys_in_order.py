"""Keep the keys of what users write in their order: JSON instead of JSONB."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

_COLUMNS = (
    ("config_policies", "policy"),
    ("experiments", "config"),
    ("searches", "snapshot"),
    ("templates", "config"),
    ("trials", "hparams"),
)
# Columns that are computed from one keep PostgreSQL from changing its type.
_COMPUTED = (
    ("metric_name", sa.Text(), "COALESCE((config #>> '{searcher,metric}'::text[]), ''::text)"),
    (
        "smaller_is_better",
        sa.Boolean(),
        "COALESCE(((config #>> '{searcher,smaller_is_better}'::text[]))::boolean, true)",
    ),
    ("max_restarts", sa.Integer(), "COALESCE(((config ->> 'max_restarts'::text))::integer, 5)"),
    (
        "slots_per_trial",
        sa.Integer(),
        "COALESCE(((config #>> '{resources,slots_per_trial}'::text[]))::integer, 1)",
    ),
)


def upgrade() -> None:
    for name, _, _ in _COMPUTED:
        op.drop_column("experiments", name)
    for table, column in _COLUMNS:
        op.alter_column(table, column, type_=postgresql.JSON(), postgresql_using=f"{column}::json")
    for name, kind, expression in _COMPUTED:
        computed = sa.Computed(expression, persisted=True)
        op.add_column("experiments", sa.Column(name, kind, computed, nullable=False))
