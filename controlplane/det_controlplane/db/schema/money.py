"""Budgets. Their costs follow from rented machines and the containers on them."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    Numeric,
    Table,
    Text,
    text,
)

from det_controlplane.core.money.budget import BudgetPeriod, BudgetScope, BudgetState
from det_controlplane.db.schema.base import Time, enum, metadata

budgets = Table(
    "budgets",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("scope", enum(BudgetScope), nullable=False),
    Column("scope_id", Text, nullable=False),  # no foreign key: scopes are of several tables
    Column("limit_usd", Numeric(14, 2), nullable=False),
    Column("period", enum(BudgetPeriod), nullable=False),
    Column("state", enum(BudgetState), nullable=False, server_default=text("'WITHIN'")),
    Column("set_at", Time, nullable=False),
    Column("checked_at", Time, nullable=False),
    CheckConstraint("limit_usd > 0", name="limit"),
    Index("budgets_by_scope", "scope", "scope_id", unique=True),
)

# Days in UTC with sums of usage and costs (db/money/closed_days.py): announced, then fenced, then summed.
closed_days = Table(
    "closed_days",
    metadata,
    Column("day", Time, primary_key=True),
    # Transactions with a smaller number may have missed that the day was announced.
    Column("fence", BigInteger),
    Column("summed_at", Time),
)

# Triggers add a row for each announced day with a change. The day counts as open until it is summed again.
changed_days = Table(
    "changed_days",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("day", Time, nullable=False),
    Index("changed_days_by_day", "day"),
)

usage_of_days = Table(
    "usage_of_days",
    metadata,
    Column("day", Time, nullable=False),
    Column("user_id", Integer, nullable=False),
    Column("pool", Text, nullable=False),
    Column("labels", ARRAY(Text), nullable=False),
    Column("seconds", Numeric, nullable=False),  # of slots
    Index("usage_of_days_by_day", "day"),
)

# Costs of containers on rented machines.
work_costs_of_days = Table(
    "work_costs_of_days",
    metadata,
    Column("day", Time, nullable=False),
    Column("user_id", Integer, nullable=False),
    Column("workspace_id", Integer, nullable=False),
    Column("pool", Text, nullable=False),
    Column("labels", ARRAY(Text), nullable=False),
    Column("slot_seconds", Numeric, nullable=False),
    Column("usd", Numeric, nullable=False),
    Index("work_costs_of_days_by_day", "day"),
    # Budgets sum the days of one user or workspace.
    Index("work_costs_of_days_by_user", "user_id", "day"),
    Index("work_costs_of_days_by_workspace", "workspace_id", "day"),
)

# Costs of rented machines, at work or idle.
machine_costs_of_days = Table(
    "machine_costs_of_days",
    metadata,
    Column("day", Time, nullable=False),
    Column("pool", Text, nullable=False),
    Column("usd", Numeric, nullable=False),
    Index("machine_costs_of_days_by_day", "day"),
)
