"""Machines that the cluster rents, refusals of clouds, holds of pools, and why an allocation has no machine."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "cooldowns",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("machine_type", sa.Text(), nullable=False),
        sa.Column("capacity", sa.Text(), nullable=False),
        sa.Column(
            "kind",
            sa.Enum("NO_CAPACITY", "QUOTA", "DENIED", "INVALID", "RETRYABLE", name="refusal_kind"),
            nullable=False,
        ),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(
            "provider", "region", "zone", "machine_type", "capacity", name=op.f("cooldowns_pkey")
        ),
    )
    op.create_table(
        "instances",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "REQUESTED",
                "LAUNCHED",
                "REGISTERED",
                "DRAINING",
                "TERMINATING",
                "GONE",
                "FAILED",
                name="instance_state",
            ),
            nullable=False,
        ),
        sa.Column(
            "offers", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("machine_type", sa.Text(), nullable=False),
        sa.Column("capacity", sa.Enum("spot", "on-demand", name="capacity"), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("price_usd_hour", sa.Numeric(precision=14, scale=6), nullable=False),
        sa.Column("section", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=True),
        sa.Column("cloud_id", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("launched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("draining_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("terminating_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("unseen", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("stopped", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("console", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = NOT (state NOT IN ('GONE', 'FAILED'))",
            name=op.f("instances_ended_check"),
        ),
        sa.CheckConstraint(
            "state <> 'LAUNCHED' OR cloud_id IS NOT NULL", name=op.f("instances_launched_check")
        ),
        sa.CheckConstraint(
            "price_usd_hour >= 0 AND slots >= 0", name=op.f("instances_positive_check")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("instances_pkey")),
    )
    op.create_index(
        "instances_agent",
        "instances",
        ["agent_id"],
        unique=False,
        postgresql_where=sa.text("agent_id IS NOT NULL"),
    )
    op.create_index(
        "instances_by_end",
        "instances",
        ["ended_at"],
        unique=False,
        postgresql_where=sa.text("launched_at IS NOT NULL"),
    )
    op.create_index(
        "instances_cloud_id",
        "instances",
        ["provider", "cloud_id"],
        unique=True,
        postgresql_where=sa.text("cloud_id IS NOT NULL"),
    )
    op.create_index(
        "instances_live",
        "instances",
        ["pool"],
        unique=False,
        postgresql_where=sa.text("state NOT IN ('GONE', 'FAILED')"),
    )
    op.create_table(
        "interruptions",
        sa.Column("instance_id", sa.Uuid(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("machine_type", sa.Text(), nullable=False),
        sa.Column("noticed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("interruptions_pkey")),
    )
    op.create_index("interruptions_by_time", "interruptions", ["noticed_at"], unique=False)
    op.create_table(
        "join_proofs",
        sa.Column("proof_hash", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("proof_hash", name=op.f("join_proofs_pkey")),
    )
    op.create_index("join_proofs_by_end", "join_proofs", ["expires_at"], unique=False)
    op.create_table(
        "pool_holds",
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("by_operator", sa.Boolean(), nullable=False),
        sa.Column("held_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("pool", name=op.f("pool_holds_pkey")),
    )
    codes = postgresql.ENUM(
        "MACHINE_STARTING",
        "BEHIND_HIGHER_PRIORITY",
        "LAUNCHING",
        "NO_OFFER_FITS",
        "PRICE_CAP",
        "MAX_INSTANCES",
        "MAX_HOURLY_COST",
        "COOLING_DOWN",
        "POOL_HELD",
        name="provision_code",
    )
    codes.create(op.get_bind())
    op.add_column("allocations", sa.Column("machine_code", codes, nullable=True))
    op.add_column("allocations", sa.Column("machine_reason", sa.Text(), nullable=True))
    op.add_column(
        "allocations", sa.Column("machine_next_try", sa.DateTime(timezone=True), nullable=True)
    )
    op.create_index("containers_by_agent_end", "containers", ["agent_id", "ended_at"], unique=False)
    op.add_column("pools", sa.Column("provision_at", sa.DateTime(timezone=True), nullable=True))
