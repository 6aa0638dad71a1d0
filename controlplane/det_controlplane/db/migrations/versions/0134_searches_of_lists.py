"""Index names of experiments by trigrams, jobs by workspace and user, and checkpoints by the last look at their files."""

import sqlalchemy as sa
from alembic import op

revision = "0134"
down_revision = "0133"


# Managed databases and the embedded one have the extension. Others, or users without the right, continue without the index.
_BY_NAME = """
    DO $$ BEGIN
        BEGIN
            CREATE EXTENSION IF NOT EXISTS pg_trgm;
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE 'names are searched without an index: %', SQLERRM;
        END;
        IF EXISTS (SELECT FROM pg_opclass WHERE opcname = 'gin_trgm_ops' AND pg_opclass_is_visible(oid)) THEN
            CREATE INDEX experiments_by_name ON experiments USING gin (lower(name) gin_trgm_ops);
        END IF;
    END $$"""


def upgrade() -> None:
    op.execute(_BY_NAME)
    op.create_index("jobs_by_workspace", "jobs", ["workspace_id"])
    op.create_index("jobs_by_user", "jobs", ["user_id"])
    op.create_index(
        "checkpoints_to_look_for",
        "checkpoints",
        [sa.text("coalesce(files_looked_at, '-infinity'::timestamptz)"), "uuid"],
        postgresql_where=sa.text("state IN ('COMPLETED', 'PARTIALLY_DELETED') AND size > 0"),
    )
