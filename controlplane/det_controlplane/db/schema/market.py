"""Define the tables of machine types and prices that clouds report, and the times of the next readings."""

from sqlalchemy import CheckConstraint, Column, Integer, Numeric, Table, Text, text

from det_controlplane.core.provision.offers import Capacity
from det_controlplane.db.schema.base import JSON, Time, enum, metadata

# Regions of clouds, each asked by one process at a time.
market_reads = Table(
    "market_reads",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("due_at", Time, nullable=False),
    Column("read_at", Time),  # the last time that it answered
    Column("problem", Text, nullable=False, server_default=text("''")),  # of the last time
)

# A type with GPUs attached has a name of its own, such as n1-standard-8+4xnvidia-tesla-t4.
market_types = Table(
    "market_types",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("machine_type", Text, primary_key=True),
    Column("zones", JSON, nullable=False),  # that have it
    Column("slots", Integer, nullable=False),  # 0 if not reported
)

# An empty zone stands for every zone of the region.
market_prices = Table(
    "market_prices",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("zone", Text, primary_key=True),
    Column("machine_type", Text, primary_key=True),
    Column("capacity", enum(Capacity), primary_key=True),
    Column("price_usd_hour", Numeric(14, 6), nullable=False),
    Column("since", Time),  # when the price began, if the cloud says so
    Column("read_at", Time, nullable=False),
    CheckConstraint("price_usd_hour > 0", name="positive"),
)
