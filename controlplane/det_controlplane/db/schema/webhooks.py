"""Webhooks and their triggers."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from det_controlplane.core.webhooks import TriggerType, WebhookMode, WebhookType
from det_controlplane.db.schema.base import JSON, Time, enum, metadata

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    # The address as it is shown; `sealed` has the whole one, where that says more. Earlier versions store the whole one here.
    Column("url", Text, nullable=False),
    Column("sealed", Text),
    Column("type", enum(WebhookType), nullable=False),
    Column("mode", enum(WebhookMode), nullable=False),
    # NULL: of the whole cluster.
    Column("workspace_id", Integer, ForeignKey("workspaces.id", ondelete="CASCADE")),
    Column("created_at", Time, nullable=False),
    # Imported webhooks send nothing until somebody enables them.
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    # The last message that arrived, and the last try that failed.
    Column("arrived_at", Time),
    Column("failed_at", Time),
    Column("failure", Text),
    Index("webhooks_by_workspace", "workspace_id"),
)

# Tries to deliver messages: the last hundred of each webhook.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("webhook_id", Integer, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("at", Time, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("experiment_id", Integer),  # no foreign key: it may be deleted
    Column("attempt", Integer, nullable=False),
    Column("failure", Text),  # NULL: it arrived
    Column("next_at", Time),  # NULL: it is not tried again
    CheckConstraint("next_at IS NULL OR failure IS NOT NULL", name="again"),
    Index("webhook_deliveries_by_webhook", "webhook_id", "id"),
)

webhook_triggers = Table(
    "webhook_triggers",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("webhook_id", Integer, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("type", enum(TriggerType), nullable=False),
    Column("condition", JSON, nullable=False),  # {state}, {regex}, {subject} or {}
    Index("webhook_triggers_by_webhook", "webhook_id"),
)

# Lines that sent a message: a task sends one for each trigger.
webhook_log_matches = Table(
    "webhook_log_matches",
    metadata,
    Column("task_id", Text, ForeignKey("tasks.id", ondelete="CASCADE"), primary_key=True),
    Column(
        "trigger_id",
        Integer,
        ForeignKey("webhook_triggers.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Index("webhook_log_matches_by_trigger", "trigger_id"),
)
