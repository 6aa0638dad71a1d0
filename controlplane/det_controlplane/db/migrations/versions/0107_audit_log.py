"""Record who changed what, in rows that stay."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0107"
down_revision = "0106"

_KEEP = """
    CREATE FUNCTION keep_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF OLD.at < now() - interval '30 days' THEN
                RETURN OLD;
            END IF;
        END IF;
        RAISE EXCEPTION 'the audit log only grows';
    END $$
"""


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("username", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("session_id", sa.BigInteger()),
        sa.Column("task_id", sa.Text()),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("audit_log_pkey")),
    )
    op.create_index("audit_log_by_time", "audit_log", ["at"])
    op.create_index("audit_log_by_object", "audit_log", ["object"])
    op.execute(_KEEP)
    op.execute(
        "CREATE TRIGGER audit_log_only_grows BEFORE UPDATE OR DELETE ON audit_log"
        " FOR EACH ROW EXECUTE FUNCTION keep_audit_log()"
    )
    op.execute(
        "CREATE TRIGGER audit_log_stays BEFORE TRUNCATE ON audit_log"
        " FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_log()"
    )
