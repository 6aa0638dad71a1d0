"""Know who told of a storage: its number is good for the checkpoints of that user only."""

import sqlalchemy as sa
from alembic import op

revision = "0104"
down_revision = "0103"
# One of the constraints goes: drafts of 0.1.0 named it in ON CONFLICT, and are refused.
unused_since = "0.1.0"

_OWNERS = """UPDATE storages s SET user_id = o.user_id FROM (
    SELECT c.storage_id, min(e.user_id) AS user_id FROM checkpoints c JOIN experiments e ON e.id = c.experiment_id
    WHERE c.storage_id IS NOT NULL GROUP BY c.storage_id HAVING min(e.user_id) = max(e.user_id)) o
    WHERE o.storage_id = s.id"""


def upgrade() -> None:
    user = sa.Column("user_id", sa.Integer(), nullable=False, server_default=sa.text("0"))
    op.add_column("storages", user)
    op.execute(_OWNERS)
    op.drop_constraint("storages_config_fingerprint_key", "storages")
    name = op.f("storages_config_fingerprint_user_id_key")
    op.create_unique_constraint(name, "storages", ["config", "fingerprint", "user_id"])
