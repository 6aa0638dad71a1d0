"""Define the audit log. Triggers keep its rows from being changed, and from being deleted in their first 30 days."""

from sqlalchemy import BigInteger, Column, Identity, Index, Integer, Table, Text

from det_controlplane.db.schema.base import JSON, Time, metadata

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", Time, nullable=False),
    # There are no foreign keys, because entries outlive their users and objects.
    Column("user_id", Integer, nullable=False),
    Column("username", Text, nullable=False),
    Column("via", Text, nullable=False),  # the kind of token: user, access, allocation; or sign-in
    Column("session_id", BigInteger),
    Column("task_id", Text),
    Column("address", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("details", JSON, nullable=False),
    Index("audit_log_by_time", "at"),
    Index("audit_log_by_object", "object"),
    Index("audit_log_by_user", "username", "id"),
    Index("audit_log_by_action", "action", "id", postgresql_ops={"action": "text_pattern_ops"}),
)
