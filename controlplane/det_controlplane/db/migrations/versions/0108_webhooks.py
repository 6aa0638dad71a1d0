"""Add webhooks."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0108"
down_revision = "0107"


def upgrade() -> None:
    op.execute("ALTER TYPE effect_kind ADD VALUE 'webhook'")
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("type", sa.Enum("DEFAULT", "SLACK", name="webhook_type"), nullable=False),
        sa.Column("mode", sa.Enum("WORKSPACE", "SPECIFIC", name="webhook_mode"), nullable=False),
        sa.Column("workspace_id", sa.Integer()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        _key("webhooks", "workspace_id", "workspaces.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("webhooks_pkey")),
    )
    op.create_index("webhooks_by_workspace", "webhooks", ["workspace_id"])
    types = ("EXPERIMENT_STATE_CHANGE", "TASK_LOG", "CUSTOM")
    op.create_table(
        "webhook_triggers",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("webhook_id", sa.Integer(), nullable=False),
        sa.Column("type", sa.Enum(*types, name="trigger_type"), nullable=False),
        sa.Column("condition", postgresql.JSONB(), nullable=False),
        _key("webhook_triggers", "webhook_id", "webhooks.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("webhook_triggers_pkey")),
    )
    op.create_index("webhook_triggers_by_webhook", "webhook_triggers", ["webhook_id"])
    op.create_table(
        "webhook_log_matches",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("trigger_id", sa.Integer(), nullable=False),
        _key("webhook_log_matches", "task_id", "tasks.id"),
        _key("webhook_log_matches", "trigger_id", "webhook_triggers.id"),
        sa.PrimaryKeyConstraint("task_id", "trigger_id", name=op.f("webhook_log_matches_pkey")),
    )
    op.create_index("webhook_log_matches_by_trigger", "webhook_log_matches", ["trigger_id"])


def _key(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    """Return a foreign key whose rows go with what they point to."""
    name = op.f(f"{table}_{column}_fkey")
    return sa.ForeignKeyConstraint([column], [target], name=name, ondelete="CASCADE")
