"""Keep what lists show of configurations in columns of their own."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0102"
down_revision = "0101"

_COLUMNS = (
    ("searcher_name", sa.Text(), "config #>> '{searcher,name}'::text[]"),
    ("hyperparameters", postgresql.JSON(), "config -> 'hyperparameters'::text"),
    ("pachyderm", postgresql.JSON(), "config #> '{integrations,pachyderm}'::text[]"),
)


def upgrade() -> None:
    for name, kind, expression in _COLUMNS:
        op.add_column("experiments", sa.Column(name, kind, sa.Computed(expression, persisted=True)))
