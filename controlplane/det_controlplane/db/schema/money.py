"""Budgets. What was spent follows from rented machines and the containers that they ran."""

from sqlalchemy import CheckConstraint, Column, Identity, Index, Integer, Numeric, Table, Text, text

from det_controlplane.core.budget import BudgetPeriod, BudgetScope, BudgetState
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
