"""Keep the secrets of configurations apart from them, encrypted."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_TABLES = ("experiments", "tasks", "storages", "workspaces", "templates", "config_policies")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("sealed", sa.Text()))
    fingerprint = sa.Column("fingerprint", sa.Text(), server_default="", nullable=False)
    op.add_column("storages", fingerprint)
    op.drop_constraint("storages_config_key", "storages")
    op.create_unique_constraint(
        "storages_config_fingerprint_key", "storages", ["config", "fingerprint"]
    )
    op.create_index(
        "experiments_unsealed", "experiments", ["id"], postgresql_where=sa.text("sealed IS NULL")
    )
    op.create_index(
        "tasks_unsealed",
        "tasks",
        ["id"],
        postgresql_where=sa.text("config IS NOT NULL AND sealed IS NULL"),
    )
